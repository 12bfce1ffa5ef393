// relive:
// flock and fcntl locks between processes, and the descriptor behind /proc/self/fd.
#include "check.h"
#include <fcntl.h>
#include <sys/file.h>

int main(void) {
    int fd = open("locked", O_RDWR | O_CREAT, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0 && fcntl(fd, F_SETLK, &lock) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int mine = open("locked", O_RDWR);
        CHECK(mine >= 0 && flock(mine, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
        struct flock probe = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 12, .l_len = 1};
        CHECK(fcntl(mine, F_SETLK, &probe) == -1 && (errno == EAGAIN || errno == EACCES));
        CHECK(fcntl(mine, F_GETLK, &probe) == 0 && probe.l_type == F_WRLCK && probe.l_pid == getppid());
        CHECK(probe.l_start == 10 && probe.l_len == 5);
        probe.l_start = 20;
        probe.l_type = F_WRLCK;
        CHECK(fcntl(mine, F_SETLK, &probe) == 0);
        _exit(0);
    }
    expect_exit(child, 0);
    int gate[2];
    CHECK(pipe(gate) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int mine = open("locked", O_RDWR);
        CHECK(write(gate[1], "x", 1) == 1);
        CHECK(mine >= 0 && flock(mine, LOCK_SH) == 0); // waits for the parent
        _exit(1);
    }
    char byte;
    CHECK(read(gate[0], &byte, 1) == 1 && flock(fd, LOCK_UN) == 0);
    expect_exit(child, 1);
    char name[64], target[4096];
    sprintf(name, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(name, target, sizeof target);
    CHECK(n > 7 && memcmp(target + n - 7, "/locked", 7) == 0);
    return ok();
}
