// A process ends, dies or executes a program while a child of another of its threads sleeps in its memory, or is about to be spawned.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : (printf("line %d\n", __LINE__), exit(1)))

extern char **environ;
static atomic_int begun;

static void nap(long ms) {
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

static void *has_a_child(void *unused) {
    atomic_store(&begun, 1);
    pid_t child = vfork();
    if (child == 0) {
        nap(20);
        _exit(0);
    }
    return unused;
}

static void *spawns(void *unused) {
    char *const words[] = {"true", NULL};
    for (;;) {
        pid_t child;
        CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, words, environ) == 0);
        atomic_fetch_add(&begun, 1);
        waitpid(child, NULL, 0);
    }
    return unused;
}

static int ends(int how, void *(*work)(void *), int after) {
    int status;
    atomic_store(&begun, 0);
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
        while (atomic_load(&begun) < after) sched_yield();
        nap(2);
        if (how == 0) _exit(10);
        if (how == 1) execl("/bin/sh", "sh", "-c", "exit 21", (char *)NULL);
        if (how == 2) kill(getpid(), SIGTERM);
        *(volatile int *)8 = 1;
    }
    CHECK(waitpid(process, &status, 0) == process);
    return status;
}

int main(void) {
    for (int i = 0; i < 3; i++) {
        CHECK(ends(0, has_a_child, 1) == 10 << 8);
        CHECK(ends(1, has_a_child, 1) == 21 << 8);
        CHECK((ends(2, has_a_child, 1) & 0x7f) == SIGTERM);
        CHECK((ends(3, has_a_child, 1) & 0x7f) == SIGSEGV);
        CHECK(ends(0, spawns, i) == 10 << 8);
    }
    puts("ok");
    return 0;
}
