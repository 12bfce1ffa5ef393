// relive: link=pie threads=yes sketch=yes parallel=refused
// A splice from a pipe into a file waits until another thread, or a child, has written to the pipe; one
// that must not wait does not. Nothing is mapped shared, then something is.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

static int ends[2];

static void *feeds(void *text) {
    usleep(20000);
    CHECK(write(ends[1], text, 5) == 5);
    return NULL;
}

static void round_of(int fd) {
    pthread_t thread;
    char seen[6] = {0};
    errno = 0;
    CHECK(splice(ends[0], NULL, fd, NULL, 100, SPLICE_F_NONBLOCK) == -1 && errno == EAGAIN);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK0(pthread_create(&thread, NULL, feeds, "hello"));
    CHECK(splice(ends[0], NULL, fd, NULL, 100, 0) == 5 && pread(fd, seen, 5, 0) == 5);
    CHECK0(pthread_join(thread, NULL));
    CHECK(strcmp(seen, "hello") == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        feeds("child");
        _exit(0);
    }
    CHECK(splice(ends[0], NULL, fd, NULL, 100, 0) == 5 && pread(fd, seen, 5, 5) == 5);
    expect_exit(child, 0);
    CHECK(strcmp(seen, "child") == 0);
}

int main(void) {
    int fd = open("spliced", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && pipe(ends) == 0);
    round_of(fd);
    int other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(ftruncate(other, 4096) == 0);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, other, 0) != MAP_FAILED);
    round_of(fd);
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    round_of(fd);
    CHECK(p != MAP_FAILED && memcmp(p, "hellochild", 10) == 0);
    return ok();
}
