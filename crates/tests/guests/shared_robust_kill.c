// relive: threads=yes sketch=yes parallel=refused timeout=60
// Robust mutexes that processes share, whose owner is killed while it holds them: asleep, while
// it waits for another lock, by itself, by an ordinary signal, in a second thread.
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

struct shared {
    pthread_mutex_t first, second;
    pthread_cond_t told;
    pthread_mutex_t plain;
    int ready;
};

static struct shared *s;

static void *lock_both(void *arg) {
    CHECK0(pthread_mutex_lock(&s->first));
    CHECK0(pthread_mutex_lock(&s->second));
    CHECK0(pthread_mutex_lock(&s->plain));
    s->ready = 1;
    CHECK0(pthread_cond_signal(&s->told));
    CHECK0(pthread_mutex_unlock(&s->plain));
    if (arg) pause();
    return NULL;
}

static void child(int how) {
    pthread_t thread;
    switch (how) {
    case 0: // asleep
        lock_both(NULL);
        for (;;) pause();
    case 1: // in a second thread
        CHECK0(pthread_create(&thread, NULL, lock_both, ""));
        CHECK0(pthread_join(thread, NULL));
        _exit(9);
    case 2: // while it works
        lock_both(NULL);
        for (volatile long i = 0;; i++) {}
    case 3: // by itself
        lock_both(NULL);
        raise(SIGKILL);
        _exit(9);
    default: // by an ordinary signal, with a second thread that has nothing to do with it
        CHECK0(pthread_create(&thread, NULL, lock_both, ""));
        for (;;) pause();
    }
}

static void owner_died(pthread_mutex_t *mutex) {
    CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD);
    CHECK0(pthread_mutex_consistent(mutex));
    CHECK0(pthread_mutex_unlock(mutex));
}

int main(void) {
    s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    pthread_mutexattr_t attr;
    pthread_condattr_t cond;
    CHECK0(pthread_mutexattr_init(&attr));
    CHECK0(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
    CHECK0(pthread_mutex_init(&s->plain, &attr));
    CHECK0(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
    CHECK0(pthread_mutex_init(&s->first, &attr));
    CHECK0(pthread_mutex_init(&s->second, &attr));
    CHECK0(pthread_condattr_init(&cond));
    CHECK0(pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED));
    CHECK0(pthread_cond_init(&s->told, &cond));
    for (int how = 0; how < 5; how++) {
        s->ready = 0;
        pid_t victim = fork();
        CHECK(victim >= 0);
        if (victim == 0) child(how);
        // A third process waits for the lock in the kernel while its owner dies.
        CHECK0(pthread_mutex_lock(&s->plain));
        while (!s->ready) CHECK0(pthread_cond_wait(&s->told, &s->plain));
        CHECK0(pthread_mutex_unlock(&s->plain));
        pid_t waiter = fork();
        CHECK(waiter >= 0);
        if (waiter == 0) {
            owner_died(&s->first);
            _exit(3);
        }
        int wanted = how == 4 ? SIGTERM : SIGKILL;
        if (how != 3) CHECK(kill(victim, wanted) == 0);
        int status;
        CHECK(waitpid(victim, &status, 0) == victim);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == wanted);
        expect_exit(waiter, 3);
        owner_died(&s->second);
    }
    return ok();
}
