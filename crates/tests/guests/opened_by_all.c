// relive: expect=ok
// Every call that opens a file by its name knows the files that are not what they are natively
// (/proc/self/maps, exe, mem), and the names of standard output.
#include "check.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static long openat2(int folder, const char *path, int flags, int resolve) {
    struct open_how how = {.flags = (unsigned)flags, .resolve = (unsigned)resolve};
    return syscall(SYS_openat2, folder, path, &how, sizeof how);
}

// Whether a map has the host's code: nothing of the program's lies above its stack but the vdso.
static int names(int fd, const char *what) {
    static char text[1 << 16];
    size_t end = 0;
    ssize_t n;
    while ((n = read(fd, text + end, sizeof text - 1 - end)) > 0) end += (size_t)n;
    text[end] = 0;
    return strstr(text, what) != NULL;
}

static void say(long fd, const char *what) {
    CHECK(fd >= 0);
    CHECK(write((int)fd, what, strlen(what)) == (ssize_t)strlen(what));
    close((int)fd);
}

int main(void) {
    int old = open("/proc/self/maps", O_RDONLY);
    long fd = openat2(AT_FDCWD, "/proc/self/maps", O_RDONLY, 0);
    CHECK(old >= 0 && fd >= 0);
    CHECK(names(old, "[stack]") && !names(old, "relive"));
    CHECK(names((int)fd, "[stack]"));
    CHECK(lseek((int)fd, 0, SEEK_SET) == 0 && !names((int)fd, "/relive"));
    close((int)fd), close(old);

    struct stat own, opened;
    CHECK((fd = openat2(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0)) >= 0);
    CHECK(stat("program", &own) == 0 || (old = open("/proc/self/exe", O_RDONLY)) >= 0);
    CHECK(fstat(old, &own) == 0 && fstat((int)fd, &opened) == 0);
    CHECK(own.st_dev == opened.st_dev && own.st_ino == opened.st_ino);
    close((int)fd), close(old);

    CHECK(openat2(AT_FDCWD, "/proc/self/exe", O_RDONLY, RESOLVE_NO_MAGICLINKS) == -1 && errno == ELOOP);
    CHECK(openat2(AT_FDCWD, "/proc/self/maps", O_RDONLY, RESOLVE_BENEATH) == -1 && errno == EXDEV);
    CHECK(openat2(AT_FDCWD, "/proc/self/maps", -1, 0) == -1 && errno == EINVAL);

    say(openat2(AT_FDCWD, "/dev/stdout", O_WRONLY, 0), "by openat2\n");
    say(creat("/dev/stdout", 0600), "by creat\n");
    say(openat(AT_FDCWD, "/proc/self/fd/1", O_WRONLY), "by openat\n");
    return ok();
}
