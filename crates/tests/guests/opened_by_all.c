// relive: link=pie
// Every call that opens a file by its name knows the files that differ from native ones
// (/proc/self/maps and exe), and the names of standard output.
#include "check.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int openat2(int folder, const char *path, int flags, int resolve) {
    struct open_how how = {.flags = (unsigned)flags, .resolve = (unsigned)resolve};
    return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

// Whether a file has this text.
static int has(int fd, const char *what) {
    static char text[1 << 16];
    size_t end = 0;
    ssize_t n;
    CHECK(fd >= 0);
    while ((n = read(fd, text + end, sizeof text - 1 - end)) > 0) end += (size_t)n;
    text[end] = 0;
    CHECK(close(fd) == 0);
    return strstr(text, what) != NULL;
}

static void say(int fd, const char *what) {
    CHECK(fd >= 0);
    CHECK(write(fd, what, strlen(what)) == (ssize_t)strlen(what) && close(fd) == 0);
}

int main(void) {
    CHECK(has(openat2(AT_FDCWD, "/proc/self/maps", O_RDONLY, 0), "[stack]"));
    CHECK(!has(openat2(AT_FDCWD, "/proc/self/maps", O_RDONLY, 0), "/relive"));

    struct stat by_open, by_openat2;
    int one = open("/proc/self/exe", O_RDONLY), other = openat2(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0);
    CHECK(one >= 0 && other >= 0 && fstat(one, &by_open) == 0 && fstat(other, &by_openat2) == 0);
    CHECK(by_open.st_dev == by_openat2.st_dev && by_open.st_ino == by_openat2.st_ino);
    CHECK(close(one) == 0 && close(other) == 0);

    // Calls that the kernel refuses.
    CHECK(openat2(AT_FDCWD, "/proc/self/exe", O_RDONLY, RESOLVE_NO_MAGICLINKS) == -1 && errno == ELOOP);
    CHECK(openat2(AT_FDCWD, "/proc/self/maps", O_RDONLY, RESOLVE_BENEATH) == -1 && errno == EXDEV);
    CHECK(openat2(AT_FDCWD, "/proc/self/maps", -1, 0) == -1 && errno == EINVAL);
    CHECK(open("/proc/self/maps", O_RDONLY | O_DIRECTORY) == -1 && errno == ENOTDIR);
    CHECK(open("/proc/self/environ", O_RDWR | O_CREAT | O_EXCL, 0600) == -1 && errno == EEXIST);

    // Another /proc: the path begins in a folder that stands for the root.
    CHECK(mkdir("root", 0700) == 0 && mkdir("root/proc", 0700) == 0 && mkdir("root/proc/self", 0700) == 0);
    say(open("root/proc/self/maps", O_WRONLY | O_CREAT, 0600), "a file of that name\n");
    int root = open("root", O_RDONLY | O_DIRECTORY);
    CHECK(root >= 0 && has(openat2(root, "/proc/self/maps", O_RDONLY, RESOLVE_IN_ROOT), "a file of that name"));

    say(openat2(AT_FDCWD, "/dev/stdout", O_WRONLY, 0), "by openat2\n");
    say(creat("/dev/stdout", 0600), "by creat\n");
    say(openat(AT_FDCWD, "/proc/self/fd/1", O_WRONLY), "by openat\n");
    return ok();
}
