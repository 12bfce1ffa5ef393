// relive: expect="ok\n"
// A program started with descriptors 0, 1 and 2 in odd states: closed, reused, duplicated.
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

int main(int argc, char **argv) {
    struct stat st;
    if (argc > 1) {
        CHECK(fstat(0, &st) == -1 && errno == EBADF);
        CHECK(fcntl(2, F_GETFD) == -1 && open("/dev/null", O_RDONLY) == 0);
        return 17;
    }
    CHECK(fstat(0, &st) == 0 && getchar() == EOF);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(0);
        close(2);
        execl("/proc/self/exe", argv[0], "again", (char *)NULL);
        _exit(1);
    }
    expect_exit(child, 17);
    int saved = dup(1);
    CHECK(close(1) == 0 && open("captured", O_RDWR | O_CREAT | O_TRUNC, 0600) == 1);
    printf("into the file\n");
    fflush(stdout);
    char text[32] = "";
    CHECK(pread(1, text, sizeof text - 1, 0) == 14 && strcmp(text, "into the file\n") == 0);
    CHECK(dup2(saved, 1) == 1);
    return ok();
}
