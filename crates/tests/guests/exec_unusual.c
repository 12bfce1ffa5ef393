// relive: link=pie,static
// Programs that have no name or odd arguments: memfds, descriptors that exec closes, no
// arguments at all, scripts that name scripts, and files that exec refuses.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static char self[4096];

static void copy(int to) {
    int from = open(self, O_RDONLY);
    char buffer[65536];
    ssize_t n;
    while ((n = read(from, buffer, sizeof buffer)) > 0) CHECK(write(to, buffer, (size_t)n) == n);
    close(from);
}

static void script(const char *name, const char *text) {
    int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0755);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static void by_memfd(void) {
    int fd = memfd_create("unnamed", MFD_CLOEXEC);
    copy(fd);
    char *args[] = {"again", "2", NULL};
    fexecve(fd, args, args + 2);
}

static void by_closing(void) {
    int fd = open(self, O_RDONLY | O_CLOEXEC);
    char *args[] = {"again", "2", NULL};
    fexecve(fd, args, args + 2);
}

static void without_arguments(void) {
    char *none[] = {NULL};
    execve(self, none, none);
}

static void by_script(void) { execl("./outer", "outer", "x", (char *)NULL); }

static void refused(void) {
    char *args[] = {"x", NULL};
    int fd = open("inner", O_RDONLY | O_CLOEXEC), folder = open(".", O_RDONLY);
    CHECK(fexecve(fd, args, args + 1) == -1 && errno == ENOENT);
    CHECK(symlink(self, "link") == 0 || errno == EEXIST);
    CHECK(syscall(SYS_execveat, folder, "link", args, args + 1, AT_SYMLINK_NOFOLLOW) == -1 && errno == ELOOP);
    CHECK(syscall(SYS_execveat, -1, "link", args, args + 1, 0) == -1 && errno == EBADF);
    CHECK(syscall(SYS_execveat, folder, "", args, args + 1, 0) == -1 && errno == ENOENT);
    CHECK(execv("./plain", args) == -1 && errno == ENOEXEC);
    CHECK(execv("./loop", args) == -1 && (errno == ELOOP || errno == ENOENT));
    CHECK(execv("/", args) == -1 && errno == EACCES);
    CHECK(execv("./absent", args) == -1 && errno == ENOENT);
    char *long_one = malloc(200001);
    memset(long_one, 'a', 200000);
    long_one[200000] = 0;
    args[0] = long_one;
    CHECK(execv(self, args) == -1 && errno == E2BIG);
    _exit(3);
}

static void run(void (*how)(void), int wanted) {
    pid_t child = fork();
    if (child == 0) {
        how();
        _exit(98);
    }
    expect_exit(child, wanted);
}

int main(int argc, char **argv) {
    if (argc == 0 || argv[0][0] == 0) return 5;
    if (argc == 2) return atoi(argv[1]);
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    char folder[4096], text[5000];
    CHECK(getcwd(folder, sizeof folder));
    script("inner", "#!/bin/sh\ntest $# = 3 && test $1 = -o && test $3 = x && exit 4\n");
    snprintf(text, sizeof text, "#!%s/inner -o\n", folder);
    script("outer", text);
    script("plain", "exit 0\n");
    script("loop", "#!./loop\n");
    run(by_memfd, 2);
    run(by_closing, 2);
    run(without_arguments, 5);
    run(by_script, 4);
    run(refused, 3);
    return ok();
}
