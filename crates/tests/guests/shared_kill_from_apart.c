// relive: threads=yes sketch=yes parallel=refused timeout=60
// A process that shares no memory kills one that does, and that holds a robust mutex: asleep, and at work. The other
// one of those that share finds that the owner has died.
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

static void killed(int how) {
    int names[2];
    CHECK(pipe(names) == 0);
    pid_t pair = fork();
    if (pair == 0) {
        pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(mutex != MAP_FAILED);
        pthread_mutexattr_t attr;
        CHECK0(pthread_mutexattr_init(&attr));
        CHECK0(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
        CHECK0(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
        CHECK0(pthread_mutex_init(mutex, &attr));
        pid_t owner = fork();
        if (owner == 0) {
            pid_t self = getpid();
            CHECK0(pthread_mutex_lock(mutex));
            CHECK(write(names[1], &self, sizeof self) == sizeof self);
            for (volatile long i = 0;; i++)
                if (how == 0) pause();
        }
        int status;
        CHECK(waitpid(owner, &status, 0) == owner && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD);
        CHECK0(pthread_mutex_consistent(mutex));
        CHECK0(pthread_mutex_unlock(mutex));
        _exit(5);
    }
    pid_t owner;
    int status;
    CHECK(read(names[0], &owner, sizeof owner) == sizeof owner);
    usleep(how == 0 ? 0 : 20000);
    CHECK(kill(owner, SIGKILL) == 0);
    CHECK(waitpid(pair, &status, 0) == pair && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    CHECK(close(names[0]) == 0 && close(names[1]) == 0);
}

int main(void) {
    for (int how = 0; how < 2; how++) killed(how);
    return ok();
}
