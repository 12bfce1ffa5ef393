// relive: threads=yes sketch=yes parallel=refused timeout=60
// Several processes and threads read the same files and each other's, at the same time; the bytes
// they read go through pipes, mixed with new bytes, as an archiver sends it.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/resource.h>

enum { BLOCK = 512, SIZE = 150 * BLOCK, PROCESSES = 4 };

extern char **environ;

static unsigned char content[SIZE];

static unsigned hash(unsigned h, const unsigned char *at, ssize_t n) {
    for (ssize_t i = 0; i < n; i++) h = (h ^ at[i]) * 16777619u;
    return h;
}

static void make(const char *name, unsigned seed) {
    for (size_t i = 0; i < SIZE; i++) {
        seed = seed * 1103515245u + 12345u;
        content[i] = seed >> 16;
    }
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, content, SIZE) == SIZE && close(file) == 0);
}

static unsigned read_all(const char *name, size_t block) {
    unsigned char buffer[SIZE];
    int file = open(name, O_RDONLY);
    CHECK(file >= 0);
    unsigned h = 0;
    ssize_t n;
    while ((n = read(file, buffer, block)) > 0) h = hash(h, buffer, n);
    CHECK(n == 0 && close(file) == 0);
    return h;
}

static void *reader(void *result) {
    unsigned *h = result;
    for (int i = 0; i < 5; i++) *h = *h * 31 + read_all(i % 2 ? "common" : "own", 4096 + BLOCK);
    return NULL;
}

// Sends a header and the file, again and again.
static void sender(int to, int index) {
    char name[32];
    snprintf(name, sizeof name, "file-%d", index);
    make(name, 77 + index);
    unsigned char header[BLOCK] = {0}, buffer[20 * BLOCK];
    for (int i = 0; i < 6; i++) {
        snprintf((char *)header, BLOCK, "part %d of %s", i, name);
        CHECK(write(to, header, BLOCK) == BLOCK);
        int file = open(i % 3 == 2 ? "common" : name, O_RDONLY);
        CHECK(file >= 0);
        ssize_t n;
        while ((n = read(file, buffer, sizeof buffer)) > 0) CHECK(write(to, buffer, n) == n);
        CHECK(close(file) == 0);
    }
    CHECK(unlink(name) == 0);
    _exit(0);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        printf("after exec %08x\n", read_all("common", 3000));
        return 0;
    }
    make("common", 5);
    make("own", 6);
    int pipes[PROCESSES][2];
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        CHECK(pipe(pipes[i]) == 0);
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] == 0) sender(pipes[i][1], i);
        CHECK(close(pipes[i][1]) == 0);
    }
    pthread_t threads[2];
    unsigned results[2] = {0, 0};
    for (int i = 0; i < 2; i++) CHECK0(pthread_create(&threads[i], NULL, reader, &results[i]));
    unsigned char buffer[65536];
    for (int i = 0; i < PROCESSES; i++) {
        unsigned h = 0;
        ssize_t n, all = 0;
        while ((n = read(pipes[i][0], buffer, sizeof buffer)) > 0) {
            h = hash(h, buffer, n);
            all += n;
        }
        CHECK(n == 0 && close(pipes[i][0]) == 0 && all == 6 * (SIZE + BLOCK));
        printf("from %d: %08x\n", i, h);
        expect_exit(children[i], 0);
    }
    for (int i = 0; i < 2; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(results[0] == results[1]);
    printf("threads %08x\n", results[0]);
    fflush(stdout);
    // A program that reads for itself, started from a copy of this one's memory.
    char *args[] = {argv[0], "again", NULL};
    pid_t child;
    CHECK0(posix_spawn(&child, argv[0], NULL, NULL, args, environ));
    expect_exit(child, 0);
    // With a limit on the size of files, reading goes on as before.
    struct rlimit limit = {1000, 1000};
    CHECK(signal(SIGXFSZ, SIG_DFL) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &limit) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(read_all("own", 777) != read_all("own", 9000));
    expect_exit(child, 0);
    CHECK(unlink("common") == 0 && unlink("own") == 0);
    return ok();
}
