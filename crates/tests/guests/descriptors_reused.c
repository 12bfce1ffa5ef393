// relive:
// One descriptor leads to a pipe, then to a file that is mapped shared, and back, in every way
// that it can be replaced: bytes written to the file must show in its map each time.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096, FD = 50 };

static volatile unsigned char *map;
static int file, ends[2];

// Writes to the file through the descriptor, and sees it in memory.
static void to_file(const char *how, char value) {
    char bytes[2000];
    memset(bytes, value, sizeof bytes);
    CHECK(lseek(FD, 100, SEEK_SET) == 100 && write(FD, bytes, sizeof bytes) == sizeof bytes);
    CHECK(map[99] == 0 && map[100] == value && map[2099] == value && map[2100] == 0);
    CHECK(pread(FD, bytes, sizeof bytes, 1000) == sizeof bytes && bytes[0] == value);
    printf("%s: %c\n", how, map[1000]);
}

static void to_pipe(void) {
    char bytes[2000];
    memset(bytes, 'p', sizeof bytes);
    CHECK(write(FD, bytes, sizeof bytes) == sizeof bytes);
    CHECK(read(ends[0], bytes, sizeof bytes) == sizeof bytes);
}

static void pipe_again(void) {
    CHECK(dup2(ends[1], FD) == FD);
    to_pipe();
}

int main(void) {
    file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && ftruncate(file, PAGE) == 0 && pipe(ends) == 0);
    map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED);
    pipe_again();
    CHECK(dup2(file, FD) == FD);
    to_file("dup2", 'a');
    pipe_again();
    CHECK(dup3(file, FD, O_CLOEXEC) == FD);
    to_file("dup3", 'b');
    pipe_again();
    CHECK(close(FD) == 0 && fcntl(file, F_DUPFD, FD) == FD);
    to_file("F_DUPFD", 'c');
    pipe_again();
    CHECK(syscall(SYS_close_range, FD, FD, 0) == 0 && fcntl(file, F_DUPFD_CLOEXEC, FD) == FD);
    to_file("close_range", 'd');
    // A child of vfork has descriptors of its own, and this process's memory.
    pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        pipe_again();
        _exit(0);
    }
    expect_exit(child, 0);
    to_file("after vfork", 'e');
    pipe_again();
    child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(dup2(file, FD) == FD);
        to_file("in vfork", 'f');
        fflush(stdout);
        _exit(0);
    }
    expect_exit(child, 0);
    to_pipe();
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(dup2(file, FD) == FD);
        to_file("in fork", 'g');
        fflush(stdout);
        _exit(0);
    }
    expect_exit(child, 0);
    to_pipe();
    CHECK(map[1000] == 'g');
    // All at once, and the lowest numbers again.
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0 && close(FD) == 0 && pipe(ends) == 0);
    CHECK(ends[1] < FD && write(ends[1], "x", 1) == 1);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    int again = open("mapped", O_RDWR);
    CHECK(again == ends[0] && dup(again) == ends[1]);
    CHECK(pwrite(ends[1], "z", 1, 7) == 1 && map[7] == 'z');
    CHECK(unlink("mapped") == 0);
    return ok();
}
