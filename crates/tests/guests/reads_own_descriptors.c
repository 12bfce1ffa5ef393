// relive:
// The recorder keeps the bytes read behind a descriptor of its own: the program must neither see
// nor harm it, and no other file may be taken for it.
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static char buffer[8192];

static void read_something(void) {
    int file = open("data", O_RDONLY);
    CHECK(file >= 0 && read(file, buffer, sizeof buffer) == sizeof buffer);
    for (size_t i = 0; i < sizeof buffer; i++) CHECK(buffer[i] == (char)(i / 7));
    CHECK(close(file) == 0);
}

static int listed(void) {
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) n += entry->d_name[0] != '.';
    CHECK(closedir(folder) == 0);
    return n;
}

int main(void) {
    CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0);
    for (size_t i = 0; i < sizeof buffer; i++) buffer[i] = i / 7;
    int file = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, buffer, sizeof buffer) == sizeof buffer && close(file) == 0);
    // The child of a vfork is the first to read.
    pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        int data = open("data", O_RDONLY);
        _exit(data < 0 || read(data, buffer, 6000) != 6000);
    }
    expect_exit(child, 0);
    int before = listed();
    read_something();
    CHECK(listed() == before);
    // All descriptors are closed, each by itself and then all at once.
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int fd = 3; fd < (int)limit.rlim_cur && fd < 70000; fd++) close(fd);
    read_something();
    CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0);
    read_something();
    CHECK(syscall(SYS_close_range, 3, 100, 0) == 0);
    CHECK(listed() == before);
    // Every number is used for an own file: none of them may be written to by another.
    file = open("mine", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, "mine", 4) == 4);
    int top = (int)limit.rlim_cur - 1;
    for (int fd = top; fd > top - 64; fd--) dup2(file, fd);
    for (int fd = 1000; fd < 1030; fd++) dup2(file, fd);
    read_something();
    for (size_t i = 0; i < sizeof buffer; i++) buffer[i] = i / 3;
    int other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(other >= 0 && write(other, buffer, sizeof buffer) == sizeof buffer);
    CHECK(pread(other, buffer, sizeof buffer, 0) == sizeof buffer);
    CHECK(pread(file, buffer, 100, 0) == 4 && memcmp(buffer, "mine", 4) == 0);
    CHECK(unlink("data") == 0 && unlink("mine") == 0 && unlink("other") == 0);
    return ok();
}
