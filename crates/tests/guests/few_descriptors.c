// relive: link=static
// A program that may have very few files open, and uses them all (more than a loader of libraries
// leaves): Relive's own descriptors must not count.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

static void limit(rlim_t soft, rlim_t hard) {
    struct rlimit limit = {soft, hard};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

// Maps a file that has not been mapped yet, with no descriptor left.
static void use(int number) {
    char name[20], text[5000];
    snprintf(name, sizeof name, "file%d", number);
    memset(text, 'a' + number, sizeof text);
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file == 3 && write(file, text, sizeof text) == sizeof text && unlink(name) == 0);
    CHECK(dup(file) == -1 && errno == EMFILE);
    CHECK(open("/dev/null", O_RDONLY) == -1 && errno == EMFILE);
    CHECK(fcntl(file, F_DUPFD, 4) == -1 && errno == EINVAL);
    CHECK(dup2(file, 4) == -1 && errno == EBADF);
    char *map = mmap(NULL, sizeof text, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(map != MAP_FAILED && memcmp(map, text, sizeof text) == 0);
    CHECK(pread(file, text, sizeof text, 0) == sizeof text && memcmp(map, text, sizeof text) == 0);
    struct stat st;
    for (int fd = 4; fd < 1100; fd++) CHECK(fstat(fd, &st) == -1 && errno == EBADF);
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == 4);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(map[1] != 'a' + number || close(file) != 0);
    expect_exit(child, 0);
    CHECK(munmap(map, sizeof text) == 0 && close(file) == 0);
}

static void run(const char *self, const char *stage, int keep) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (keep) CHECK(open("/dev/null", O_RDONLY) == 3);
        execl(self, self, stage, (char *)NULL);
        CHECK(!"exec");
    }
    expect_exit(child, 0);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        struct rlimit now;
        CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == (argv[1][0] == 's' ? 4 : 6));
        if (argv[1][0] == 's' && argv[1][1] == 0) use(2);
        struct stat st;
        for (int fd = 4; fd < 1100; fd++) CHECK(fstat(fd, &st) == -1 && errno == EBADF);
        return 0;
    }
    for (int fd = 3; fd < 1024; fd++) close(fd);
    struct rlimit before;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    limit(4, before.rlim_max);
    use(0);
    use(1);
    run(argv[0], "s", 0);
    run(argv[0], "soft, all used", 1);
    limit(6, 6);
    run(argv[0], "hard", 0);
    run(argv[0], "hard", 0);
    return ok();
}
