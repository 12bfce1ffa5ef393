// relive: modes=record,replay,verify threads=yes coherence=no
// A crash handler forks a process that attaches to all threads of the crashed one, reads their registers and
// stacks, and detaches; the crashed process waits for it and then dies as it would have.
#define _GNU_SOURCE
#include "check.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

static int pipes[2];

static int dump(pid_t pid) {
    char name[64];
    int threads = 0;
    snprintf(name, sizeof name, "/proc/%d/task", pid);
    DIR *tasks = opendir(name);
    CHECK(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        pid_t tid = atoi(entry->d_name);
        if (tid == 0)
            continue;
        CHECK(ptrace(PTRACE_ATTACH, tid, 0, 0) == 0);
        int status;
        CHECK(waitpid(tid, &status, __WALL) == tid);
        CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        struct user_regs_struct regs;
        CHECK(ptrace(PTRACE_GETREGS, tid, 0, &regs) == 0);
        long word;
        struct iovec here = {&word, 8}, there = {(void *)regs.rsp, 8};
        CHECK(process_vm_readv(pid, &here, 1, &there, 1, 0) == 8);
        CHECK(ptrace(PTRACE_DETACH, tid, 0, 0) == 0);
        threads++;
    }
    closedir(tasks);
    return threads;
}

static void crash(int sig, siginfo_t *info, void *uc) {
    (void)uc;
    CHECK(info->si_addr == (void *)32);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pid_t pid = fork();
    if (pid == 0)
        _exit(dump(getppid()));
    int status;
    while (waitpid(pid, &status, 0) < 0)
        CHECK(errno == EINTR);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    signal(sig, SIG_DFL);
}

static void *waits(void *arg) {
    char byte;
    while (read(pipes[0], &byte, 1) < 0)
        CHECK(errno == EINTR);
    return arg;
}

static int crashes(void) {
    CHECK(pipe(pipes) == 0);
    handle(SIGSEGV, crash, 0);
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        CHECK0(pthread_create(&t[i], NULL, waits, NULL));
    *(volatile int *)32 = 1;
    return 1;
}

int main(void) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(crashes());
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    return ok();
}
