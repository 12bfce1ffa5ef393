// relive: output=free link=pie,static args="one two\s2"
// The files of /proc about the process itself: maps, exe, cmdline, status, fd, task, environ.
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

extern char **environ;

static char *slurp(const char *name, size_t *length) {
    static char text[1 << 20];
    int fd = open(name, O_RDONLY);
    CHECK(fd >= 0);
    *length = 0;
    ssize_t n;
    while ((n = read(fd, text + *length, sizeof text - 1 - *length)) > 0) *length += (size_t)n;
    text[*length] = 0;
    CHECK(n == 0 && close(fd) == 0);
    return text;
}

int main(int argc, char **argv) {
    size_t length;
    CHECK(argc == 3 && strcmp(argv[1], "one") == 0 && strcmp(argv[2], "two 2") == 0);
    char exe[4096] = "";
    CHECK(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0 && strcmp(exe, argv[0]) == 0);
    CHECK(strcmp((char *)getauxval(AT_EXECFN), argv[0]) == 0);
    char *maps = slurp("/proc/self/maps", &length);
    int found_main = 0, found_stack = 0, named = 0;
    unsigned long last = 0;
    for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long start, end;
        char rights[5], path[4096] = "";
        CHECK(sscanf(line, "%lx-%lx %4s %*x %*s %*u %4095[^\n]", &start, &end, rights, path) >= 3);
        CHECK(start >= last && end > start);
        last = end;
        unsigned long at = (unsigned long)main, here = (unsigned long)&argc;
        if (at >= start && at < end) found_main += rights[2] == 'x' && strcmp(path, exe) == 0;
        if (here >= start && here < end) found_stack += strcmp(path, "[stack]") == 0;
        // No mapping of the recorder's shows: only this program's file, libraries and devices.
        const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
        named += strncmp(base, "relive", 6) == 0;
    }
    CHECK(found_main == 1 && found_stack == 1 && named == 0);
    char *line = slurp("/proc/self/cmdline", &length);
    CHECK(length == strlen(argv[0]) + 11 && strcmp(line, argv[0]) == 0 && memcmp(line + length - 10, "one\0two 2", 10) == 0);
    char *status = slurp("/proc/self/status", &length);
    char want[64];
    sprintf(want, "\nPid:\t%d\n", (int)getpid());
    CHECK(strstr(status, want) && strstr(status, "\nTracerPid:\t0\n") && strstr(status, "\nThreads:\t1\n"));
    DIR *dir = opendir("/proc/self/fd");
    int open_fds = 0;
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.') {
            // Each listed descriptor is open and the program's own; a recorder's are not listed.
            CHECK(fcntl(atoi(e->d_name), F_GETFD) >= 0 && atoi(e->d_name) < 100);
            open_fds++;
        }
    CHECK(closedir(dir) == 0 && open_fds >= 4);
    dir = opendir("/proc/self/task");
    int tasks = 0;
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.') {
            tasks++;
            CHECK(atoi(e->d_name) == getpid());
        }
    CHECK(tasks == 1 && closedir(dir) == 0 && syscall(SYS_gettid) == getpid());
    CHECK(prctl(PR_SET_NAME, "renamed") == 0);
    char name[16];
    CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "renamed") == 0);
    CHECK(strcmp(slurp("/proc/self/comm", &length), "renamed\n") == 0);
    struct utsname u;
    CHECK(uname(&u) == 0 && strcmp(u.sysname, "Linux") == 0 && strcmp(u.machine, "x86_64") == 0);
    int path_seen = 0;
    for (char **e = environ; *e; e++) {
        path_seen += strncmp(*e, "PATH=", 5) == 0;
        CHECK(strncmp(*e, "RELIVE_", 7) != 0 || strncmp(*e, "RELIVE_FRAGMENT_INSNS=", 22) == 0 ||
              strncmp(*e, "RELIVE_PAIRS=", 13) == 0);
    }
    CHECK(path_seen == 1);
    return ok();
}
