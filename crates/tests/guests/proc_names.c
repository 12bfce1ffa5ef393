// relive:
// The files of /proc that show the program itself, by all the names that they have.
#include "check.h"
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

static char text[1 << 20], own[4096];

static void is_own_link(int folder, const char *name) {
    char to[4096];
    ssize_t n = readlinkat(folder, name, to, sizeof to - 1);
    CHECK(n > 0);
    to[n] = 0;
    if (strcmp(to, own) != 0) dprintf(2, "%s is %s\n", name, to);
    CHECK(strcmp(to, own) == 0);
}

// A map has this function in it, and only maps that the program knows of.
static void is_own_map(int fd) {
    size_t length = 0;
    ssize_t n;
    CHECK(fd >= 0);
    while ((n = read(fd, text + length, sizeof text - 1 - length)) > 0) length += (size_t)n;
    text[length] = 0;
    CHECK(close(fd) == 0 && strstr(text, own) && strstr(text, "[stack]"));
    int found = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long from, to;
        CHECK(sscanf(line, "%lx-%lx", &from, &to) == 2);
        found |= from <= (unsigned long)is_own_map && (unsigned long)is_own_map < to;
    }
    CHECK(found);
}

int main(void) {
    char name[64];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    CHECK(n > 0);
    int folder = open("/proc/self", O_RDONLY | O_DIRECTORY);
    int path = open("/proc/self/task", O_PATH);
    CHECK(folder >= 0 && path >= 0);
    is_own_link(folder, "exe");
    is_own_link(folder, "./exe");
    is_own_link(folder, "../self/exe");
    is_own_link(AT_FDCWD, "/proc/./self//exe");
    is_own_link(AT_FDCWD, "/proc/../proc/thread-self/exe");
    snprintf(name, sizeof name, "%d/exe", (int)getpid());
    is_own_link(path, name);
    snprintf(name, sizeof name, "/proc/%d/task/%d/exe", (int)getpid(), (int)syscall(SYS_gettid));
    is_own_link(AT_FDCWD, name);
    is_own_map(openat(folder, "maps", O_RDONLY));
    is_own_map(openat(folder, "task/../maps", O_RDONLY));
    CHECK(fchdir(folder) == 0);
    is_own_link(AT_FDCWD, "exe");
    is_own_map(open("maps", O_RDONLY | O_CLOEXEC));
    is_own_map(open("../self/maps", O_RDONLY));
    CHECK(chdir("/") == 0 && open("exe", O_RDONLY) == -1 && errno == ENOENT);
    CHECK(open("/proc/1/nothing/maps", O_RDONLY) == -1 && errno == ENOENT);

    int fd = open("/proc/self/auxv", O_RDONLY), random = 0, entry = 0;
    unsigned long pair[2] = {1, 0};
    CHECK(fd >= 0);
    while (pair[0] != AT_NULL) {
        CHECK(read(fd, pair, sizeof pair) == sizeof pair);
        random |= pair[0] == AT_RANDOM && pair[1] == getauxval(AT_RANDOM);
        entry |= pair[0] == AT_ENTRY && pair[1] == getauxval(AT_ENTRY);
    }
    CHECK(random && entry && read(fd, pair, 1) == 0);
    return ok();
}
