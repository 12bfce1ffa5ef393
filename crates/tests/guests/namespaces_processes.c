// relive: threads=yes sketch=yes parallel=refused
// Namespaces of processes: ids inside and outside, the first process that waits for orphans and whose end
// ends all, memory that is shared over their border, threads, programs that are executed inside.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static atomic_int *shared;

static pid_t cloned(unsigned long flags) {
    fflush(NULL);
    return (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
}

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void await(pid_t child) {
    int status = status_of(child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *beside(void *arg) {
    CHECK(getpid() == 1 && syscall(SYS_gettid) != 1);
    atomic_fetch_add(&shared[1], 1);
    return arg;
}

static void handler(int sig) { atomic_fetch_add(&shared[2], sig); }

// The first process: it adopts orphans, and no signal of its namespace without a handler ends it.
static void first(void) {
    CHECK(getpid() == 1 && getppid() == 0 && syscall(SYS_gettid) == 1);
    CHECK(kill(1, SIGTERM) == 0);
    CHECK(raise(SIGUSR1) == 0);
    signal(SIGUSR2, handler);
    CHECK(raise(SIGUSR2) == 0);
    CHECK(atomic_load(&shared[2]) == SIGUSR2);
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, beside, NULL));
    CHECK0(pthread_join(thread, NULL));
    CHECK(atomic_load(&shared[1]) == 1);
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(getpid() > 1 && getppid() == 1);
        pid_t orphan = fork();
        if (orphan == 0) {
            char byte;
            close(ends[1]);
            CHECK(read(ends[0], &byte, 1) == 1);
            while (getppid() != 1) sched_yield();
            atomic_fetch_add(&shared[3], 7);
            _exit(5);
        }
        CHECK(orphan > 1);
        atomic_store(&shared[4], orphan);
        _exit(0);
    }
    await(child);
    CHECK(write(ends[1], "", 1) == 1);
    int status = status_of(atomic_load(&shared[4]));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5 && atomic_load(&shared[3]) == 7);
    // Killed by its number inside, and by its descriptor.
    child = fork();
    if (child == 0) for (;;) pause();
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(WTERMSIG(status_of(child)) == SIGKILL);
    child = fork();
    if (child == 0) for (;;) pause();
    int fd = (int)syscall(SYS_pidfd_open, child, 0);
    CHECK(fd >= 0 && syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) == 0);
    CHECK(WTERMSIG(status_of(child)) == SIGTERM);
    close(fd);
    // A program, which sees ids of its namespace.
    child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "echo parent $PPID; (exit 3); echo $?; true | cat; kill -TERM 1; echo inside", NULL);
        _exit(9);
    }
    await(child);
}

// The end of the first process ends the others.
static void all_end(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = cloned(CLONE_NEWUSER | CLONE_NEWPID);
    if (child == -1) return;
    if (child == 0) {
        for (int i = 0; i < 2; i++) {
            if (fork() == 0) {
                printf("before its end: %d\n", i);
                fflush(stdout);
                CHECK(write(ends[1], "", 1) == 1);
                for (;;) pause();
            }
            char byte;
            CHECK(read(ends[0], &byte, 1) == 1);
        }
        _exit(4);
    }
    close(ends[1]);
    char byte;
    int status = status_of(child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    CHECK(read(ends[0], &byte, 1) == 0);
    // A fault ends it as any other process.
    child = cloned(CLONE_NEWUSER | CLONE_NEWPID);
    if (child == 0) {
        *(volatile int *)8 = 1;
        _exit(0);
    }
    CHECK(WTERMSIG(status_of(child)) == SIGSEGV);
    // From outside it can be killed.
    child = cloned(CLONE_NEWUSER | CLONE_NEWPID);
    if (child == 0) {
        if (fork() == 0) for (;;) pause();
        for (;;) pause();
    }
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(WTERMSIG(status_of(child)) == SIGKILL);
}

// unshare changes the ids of later children alone; the second of them finds no first one any more.
static void for_children(void) {
    pid_t helper = fork();
    if (helper != 0) {
        await(helper);
        return;
    }
    pid_t own = getpid();
    CHECK(unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0);
    CHECK(getpid() == own);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, beside, NULL) == EINVAL);
    pid_t child = fork();
    if (child == 0) {
        CHECK(getpid() == 1);
        pid_t inner = fork();
        if (inner == 0) {
            CHECK(getpid() == 2);
            printf("the second one\n");
            exit(0);
        }
        CHECK(inner == 2);
        await(2);
        exit(0);
    }
    CHECK(child > 1);
    await(child);
    CHECK(fork() == -1 && errno == ENOMEM);
    exit(0);
}

// A namespace in a namespace, entered from outside by a descriptor of its first process.
static void nested(void) {
    int ready[2], done[2];
    char byte = 0;
    CHECK(pipe(ready) == 0);
    CHECK(pipe(done) == 0);
    pid_t child = cloned(CLONE_NEWUSER | CLONE_NEWPID);
    if (child == 0) {
        pid_t inner = cloned(CLONE_NEWPID);
        if (inner == 0) {
            CHECK(getpid() == 1);
            atomic_fetch_add(&shared[5], 1);
            CHECK(write(ready[1], &byte, 1) == 1 && read(done[0], &byte, 1) == 1);
            _exit(0);
        }
        CHECK(inner > 1);
        await(inner);
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    pid_t visitor = fork();
    if (visitor == 0) {
        int fd = (int)syscall(SYS_pidfd_open, child, 0);
        CHECK(fd >= 0);
        CHECK(setns(fd, CLONE_NEWUSER | CLONE_NEWPID) == 0);
        pid_t entered = fork();
        if (entered == 0) {
            CHECK(getpid() > 1 && getppid() == 0);
            atomic_fetch_add(&shared[5], 1);
            _exit(0);
        }
        await(entered);
        _exit(0);
    }
    await(visitor);
    CHECK(write(done[1], &byte, 1) == 1);
    await(child);
    CHECK(atomic_load(&shared[5]) == 2);
}

int main(void) {
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t child = cloned(CLONE_NEWUSER | CLONE_NEWPID);
    if (child == -1) {
        printf("no namespaces of users here\n");
        return ok();
    }
    if (child == 0) {
        first();
        fflush(stdout);
        _exit(0);
    }
    await(child);
    all_end();
    for_children();
    nested();
    return ok();
}
