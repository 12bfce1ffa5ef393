// relive:
// Limits, credentials, priorities, affinity, personality and other per-process settings.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

int main(void) {
    struct rlimit limit = {20, 20}, old;
    CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0 && old.rlim_cur > 20);
    limit.rlim_max = old.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int last = -1, fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0) last = fd;
    CHECK(errno == EMFILE && last == 19 && dup2(0, 20) == -1 && errno == EBADF);
    CHECK(close_range(3, ~0u, 0) == 0 && fcntl(3, F_GETFD) == -1 && open("/dev/null", O_RDONLY) == 3);
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0 && prlimit(0, RLIMIT_NOFILE, NULL, &limit) == 0);
    CHECK(limit.rlim_cur == old.rlim_cur);
    limit.rlim_cur = 4096;
    limit.rlim_max = RLIM_INFINITY;
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &limit) == 0);
    fd = open("limited", O_WRONLY | O_CREAT, 0600);
    static char block[8192];
    CHECK(write(fd, block, sizeof block) == 4096 && write(fd, block, 1) == -1 && errno == EFBIG);
    // Memory that becomes writable is data.
    struct rlimit data = {50 << 20, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_DATA, &data) == 0);
    char *large = mmap(NULL, 70 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(large != MAP_FAILED && mprotect(large, 70 << 20, PROT_READ | PROT_WRITE) == -1 && errno == ENOMEM);
    CHECK(mprotect(large, 10 << 20, PROT_READ | PROT_WRITE) == 0);
    CHECK(setrlimit(RLIMIT_DATA, &all) == 0 && munmap(large, 70 << 20) == 0);

    uid_t r, e, s;
    CHECK(getresuid(&r, &e, &s) == 0 && r == getuid() && e == geteuid() && getgroups(0, NULL) >= 0);
    CHECK(getpriority(PRIO_PROCESS, 0) == 0 && setpriority(PRIO_PROCESS, 0, 5) == 0 && getpriority(PRIO_PROCESS, 0) == 5);
    cpu_set_t cpus, one;
    CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= 1);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cpus)) {
            CPU_SET(i, &one);
            break;
        }
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0 && sched_getaffinity(0, sizeof cpus, &cpus) == 0);
    CHECK(CPU_EQUAL(&one, &cpus) && CPU_ISSET(sched_getcpu(), &one));
    CHECK(sched_getscheduler(0) == SCHED_OTHER && sched_get_priority_max(SCHED_FIFO) == 99);
    CHECK(personality(0xffffffff) >= 0);
    CHECK(prctl(PR_SET_PDEATHSIG, SIGTERM) == 0);
    int number;
    CHECK(prctl(PR_GET_PDEATHSIG, &number) == 0 && number == SIGTERM);
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    struct sysinfo info;
    CHECK(sysinfo(&info) == 0 && info.totalram > 0 && sysconf(_SC_NPROCESSORS_ONLN) >= 1);
    return ok();
}
