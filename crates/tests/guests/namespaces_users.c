// relive: threads=yes sketch=yes parallel=refused
// Namespaces of users, host names, networks, objects of System V, cgroups and time: by unshare, clone and
// setns. A machine that allows no namespaces of users to a program shows that natively too.
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void await(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void map_ids(uid_t uid, gid_t gid) {
    char text[64];
    put("/proc/self/setgroups", "deny");
    snprintf(text, sizeof text, "0 %u 1\n", uid);
    put("/proc/self/uid_map", text);
    snprintf(text, sizeof text, "0 %u 1\n", gid);
    put("/proc/self/gid_map", text);
}

static void names(void) {
    char name[65];
    CHECK(unshare(CLONE_NEWUTS) == 0);
    CHECK(sethostname("inner", 5) == 0);
    CHECK(gethostname(name, sizeof name) == 0);
    CHECK(strcmp(name, "inner") == 0);
}

static void network(void) {
    CHECK(unshare(CLONE_NEWNET) == 0);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(s >= 0);
    struct ifreq request = {.ifr_name = "lo"};
    CHECK(ioctl(s, SIOCGIFFLAGS, &request) == 0);
    CHECK(!(request.ifr_flags & IFF_UP));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(80)};
    CHECK(connect(s, (void *)&at, sizeof at) == -1 && errno == ENETUNREACH);
    request.ifr_flags |= IFF_UP;
    CHECK(ioctl(s, SIOCSIFFLAGS, &request) == 0);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (void *)&at, sizeof at) == 0);
    CHECK(listen(listener, 1) == 0);
    CHECK(connect(s, (void *)&at, sizeof at) == 0);
    int other = accept(listener, NULL, NULL);
    CHECK(other >= 0 && write(other, "word", 4) == 4);
    char word[4];
    CHECK(read(s, word, 4) == 4 && memcmp(word, "word", 4) == 0);
}

static void rights(void) {
    CHECK(getuid() == 0 && getgid() == 0);
    char text[64] = {0};
    int fd = open("/proc/self/setgroups", O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && strcmp(text, "deny\n") == 0);
    close(fd);
    gid_t group = 0;
    CHECK(setgroups(1, &group) == -1 && errno == EPERM);
    CHECK(unshare(CLONE_NEWIPC) == 0);
    CHECK(unshare(CLONE_NEWCGROUP) == 0);
}

// A second process of the namespace, entered by its file and by a descriptor of a process.
static void entered(void) {
    int ready[2], done[2];
    char byte = 0;
    CHECK(pipe(ready) == 0);
    CHECK(pipe(done) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(unshare(CLONE_NEWUTS) == 0);
        CHECK(sethostname("second", 6) == 0);
        CHECK(write(ready[1], &byte, 1) == 1 && read(done[0], &byte, 1) == 1);
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    char path[64], name[65];
    snprintf(path, sizeof path, "/proc/%d/ns/uts", child);
    pid_t visitor = fork();
    if (visitor == 0) {
        int fd = open(path, O_RDONLY);
        CHECK(fd >= 0);
        CHECK(setns(fd, CLONE_NEWNET) == -1 && errno == EINVAL);
        CHECK(setns(fd, CLONE_NEWUTS) == 0);
        CHECK(gethostname(name, sizeof name) == 0);
        CHECK(strcmp(name, "second") == 0);
        _exit(0);
    }
    await(visitor);
    visitor = fork();
    if (visitor == 0) {
        int fd = (int)syscall(SYS_pidfd_open, child, 0);
        CHECK(fd >= 0);
        CHECK(setns(fd, CLONE_NEWUTS | CLONE_NEWIPC) == 0);
        CHECK(gethostname(name, sizeof name) == 0);
        CHECK(strcmp(name, "second") == 0);
        _exit(0);
    }
    await(visitor);
    CHECK(setns(-1, 0) == -1 && errno == EBADF);
    CHECK(setns(0, 0) == -1 && errno == EINVAL);
    CHECK(write(done[1], &byte, 1) == 1);
    await(child);
}

static void shifted_time(void) {
    if (unshare(CLONE_NEWTIME) != 0) return;
    put("/proc/self/timens_offsets", "monotonic 1000000 0\n");
    struct timespec here, there;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &here) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(clock_gettime(CLOCK_MONOTONIC, &there) == 0);
        CHECK(there.tv_sec - here.tv_sec >= 1000000);
        _exit(0);
    }
    await(child);
}

int main(void) {
    uid_t uid = getuid();
    gid_t gid = getgid();
    pid_t child = fork();
    if (child == 0) {
        CHECK(unshare(0x1) == -1 && errno == EINVAL);
        if (unshare(CLONE_NEWUSER) != 0) {
            printf("no namespaces of users here\n");
            exit(ok());
        }
        map_ids(uid, gid);
        rights();
        names();
        network();
        entered();
        shifted_time();
        // A program that is executed in it.
        execl("/bin/sh", "sh", "-c", "id -u; hostname; cat /proc/self/uid_map | tr -s ' '; echo inside", NULL);
        _exit(9);
    }
    await(child);
    return ok();
}
