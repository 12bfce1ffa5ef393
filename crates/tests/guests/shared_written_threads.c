// relive: output=free threads=yes sketch=yes parallel=refused timeout=120 link=pie
// A thread changes a file in ways that may sleep, and children of posix_spawn and vfork cut it, while
// another thread reads it through a map: a replay sees the same content as the recording.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

enum { ROUNDS = 60, PAGE = 4096 };

static int fd, ends[2];
static volatile unsigned char *map;
static volatile int over;
static unsigned long sum;

static void *reads(void *unused) {
    (void)unused;
    while (!over)
        for (int i = 0; i < 64; i += 8) sum = sum * 31 + map[i];
    return NULL;
}

static void *feeds(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        char text[8];
        snprintf(text, sizeof text, "%07d", i);
        CHECK(write(ends[1], text, 8) == 8);
        if (i % 8 == 0) usleep(1000);
    }
    return NULL;
}

static void spawn(void) {
    posix_spawn_file_actions_t actions;
    CHECK0(posix_spawn_file_actions_init(&actions));
    CHECK0(posix_spawn_file_actions_addopen(&actions, 1, "spawned", O_WRONLY | O_TRUNC, 0));
    pid_t child;
    char *argv[] = {"echo", "spawned", NULL};
    CHECK0(posix_spawnp(&child, "echo", &actions, NULL, argv, (char *[]){"PATH=/usr/bin:/bin", NULL}));
    expect_exit(child, 0);
    CHECK0(posix_spawn_file_actions_destroy(&actions));
}

int main(void) {
    fd = open("threads", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0 && pipe(ends) == 0);
    map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    int source = open("source", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(map != MAP_FAILED && write(source, "0123456789abcdefghijklmnopqrstuvwxyz", 36) == 36);
    pthread_t threads[2];
    CHECK0(pthread_create(&threads[0], NULL, reads, NULL));
    CHECK0(pthread_create(&threads[1], NULL, feeds, NULL));
    for (int i = 0; i < ROUNDS; i++) {
        off_t from = i % 20;
        loff_t in = i % 15, out = 8 * (i % 3), to = 40;
        struct iovec part = {"vector", 6};
        CHECK(lseek(fd, 16, SEEK_SET) == 16 && sendfile(fd, source, &from, 8) == 8);
        CHECK(copy_file_range(source, &in, fd, &out, 8, 0) == 8 || errno == EXDEV || errno == EINVAL);
        CHECK(pwritev2(fd, &part, 1, 32 + i % 10, 0) == 6);
        CHECK(splice(ends[0], NULL, fd, &to, 8, 0) > 0);
    }
    over = 1;
    for (int i = 0; i < 2; i++) CHECK0(pthread_join(threads[i], NULL));

    // A file of which another process has a map is cut by a child on this one's memory.
    CHECK(close(open("spawned", O_RDWR | O_CREAT | O_TRUNC, 0600)) == 0 && truncate("spawned", PAGE) == 0);
    int go[2], done[2];
    CHECK(pipe(go) == 0 && pipe(done) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int own = open("spawned", O_RDONLY);
        volatile char *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, own, 0);
        char byte = p[0];
        CHECK(write(done[1], "r", 1) == 1 && read(go[0], &byte, 1) == 1 && p[0] == 's' && p[8] == 0);
        _exit(0);
    }
    char byte;
    CHECK(read(done[0], &byte, 1) == 1);
    spawn();
    CHECK(write(go[1], "g", 1) == 1);
    expect_exit(child, 0);
    printf("%lx %.7s\n", sum, (const char *)map + 40);
    return ok();
}
