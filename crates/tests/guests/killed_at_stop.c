// relive: modes=record,replay,verify coherence=no
// A process that holds a robust mutex in shared memory is killed while it is stopped for its tracer: by a signal, in front of
// a call, by a fault, and in a group stop without a tracer.
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/ptrace.h>

enum { SIGNAL, CALL, FAULT, UNTRACED, KINDS };

static pthread_mutex_t *lock;

static void child(int kind) {
    CHECK0(pthread_mutex_lock(lock));
    if (kind != UNTRACED) CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    CHECK(raise(SIGSTOP) == 0);
    if (kind == FAULT) *(volatile int *)16 = 1;
    _exit(getppid() == 0);
}

int main(void) {
    pthread_mutexattr_t attr;
    lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(lock != MAP_FAILED);
    CHECK0(pthread_mutexattr_init(&attr));
    CHECK0(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
    CHECK0(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
    CHECK0(pthread_mutex_init(lock, &attr));
    for (int kind = 0; kind < KINDS; kind++) {
        int status;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) child(kind);
        CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        if (kind == CALL || kind == FAULT) {
            CHECK(ptrace(kind == CALL ? PTRACE_SYSCALL : PTRACE_CONT, pid, 0, 0) == 0);
            CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
            CHECK(WSTOPSIG(status) == (kind == CALL ? SIGTRAP : SIGSEGV));
        }
        CHECK(kill(pid, SIGKILL) == 0);
        CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK(pthread_mutex_lock(lock) == EOWNERDEAD);
        CHECK0(pthread_mutex_consistent(lock));
        CHECK0(pthread_mutex_unlock(lock));
    }
    return ok();
}
