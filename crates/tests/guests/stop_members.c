// relive: threads=yes sketch=yes parallel=refused timeout=60
// A process whose threads write to shared memory is stopped by its parent, and goes on, many times: the parent runs
// while the other is stopped.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { ROUNDS = 25, THREADS = 3 };

static atomic_int *counters;

static void *count(void *number) {
    for (;;) {
        atomic_fetch_add(&counters[(long)number], 1);
        for (volatile int i = 0; i < 3000; i++) continue;
        getppid();
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread;
    for (long i = 1; i < THREADS; i++) CHECK0(pthread_create(&thread, NULL, count, (void *)i));
    count(NULL);
}

static int sum(void) {
    int all = 0;
    for (int i = 0; i < THREADS; i++) all += atomic_load(&counters[i]);
    return all;
}

int main(void) {
    counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counters != MAP_FAILED);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) threads();
    int status;
    for (int i = 0; i < ROUNDS; i++) {
        int before = sum();
        while (sum() < before + 5) usleep(100);
        CHECK(kill(child, SIGSTOP) == 0);
        CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        before = sum();
        usleep(300);
        CHECK(sum() == before);
        CHECK(kill(child, SIGCONT) == 0);
        CHECK(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
    }
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL);
    printf("%d stops\nok\n", ROUNDS);
    return 0;
}
