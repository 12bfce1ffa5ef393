// relive: modes=record,replay,verify
// A tracer reads and writes its stopped child: memory by words, by /proc/PID/mem and by
// process_vm_readv, general and vector registers.
#define _GNU_SOURCE
#include "check.h"
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

static volatile long value = 5;
static volatile long words[3];

__attribute__((noinline)) static long code(void) {
    __asm__ volatile("" ::: "memory");
    return 11;
}

static int child(void) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    CHECK(code() == 11);
    double x = 1.5;
    long r12 = 1;
    // The tracer changes r12 and xmm7 here.
    __asm__ volatile("mov $1, %%r12; movsd %2, %%xmm7\n"
                     "mov %%r12, %0\n"
                     "int3\n"
                     "mov %%r12, %0; movsd %%xmm7, %1"
                     : "=r"(r12), "=m"(x)
                     : "m"(x)
                     : "r12", "xmm7");
    CHECK(r12 == 77);
    CHECK(x == 2.5);
    CHECK(value == 41);
    CHECK(words[0] == 1 && words[1] == 2 && words[2] == 3);
    CHECK(code() == 12);
    return 3;
}

static void wait_stop(pid_t pid, int sig) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == sig && status >> 16 == 0);
}

int main(void) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(child());
    wait_stop(pid, SIGTRAP);
    errno = 0;
    CHECK(ptrace(PTRACE_PEEKDATA, pid, &value, 0) == 5 && errno == 0);
    CHECK(ptrace(PTRACE_PEEKDATA, pid, 16, 0) == -1 && errno == EIO);
    CHECK(ptrace(PTRACE_POKEDATA, pid, &value, 41) == 0);
    CHECK(value == 5);

    char name[64];
    snprintf(name, sizeof name, "/proc/%d/mem", pid);
    int fd = open(name, O_RDWR);
    CHECK(fd >= 0);
    long seen = 0;
    CHECK(pread(fd, &seen, 8, (off_t)&value) == 8 && seen == 41);
    long three[3] = {1, 2, 3};
    CHECK(pwrite(fd, three, 24, (off_t)words) == 24);
    long back[3] = {0};
    struct iovec here = {back, 24}, there = {(void *)words, 24};
    CHECK(process_vm_readv(pid, &here, 1, &there, 1, 0) == 24);
    CHECK(back[0] == 1 && back[2] == 3);

    // The constant in the code.
    unsigned char *at = (unsigned char *)code;
    while (!(at[0] == 0xb8 && at[1] == 11))
        at++;
    CHECK(pwrite(fd, "\x0c", 1, (off_t)(at + 1)) == 1);
    close(fd);

    struct user_regs_struct regs;
    CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
    CHECK(regs.cs == 0x33 && regs.ss == 0x2b && regs.r12 == 1);
    CHECK((long)regs.orig_rax == -1);
    regs.r12 = 77;
    CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
    struct user_regs_struct again;
    struct iovec set = {&again, sizeof again};
    CHECK(ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &set) == 0);
    CHECK(set.iov_len == sizeof again && again.r12 == 77 && again.rip == regs.rip);
    errno = 0;
    CHECK(ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.r12), 0) == 77 && errno == 0);
    struct user_fpregs_struct vectors;
    CHECK(ptrace(PTRACE_GETFPREGS, pid, 0, &vectors) == 0);
    double x;
    memcpy(&x, (char *)vectors.xmm_space + 7 * 16, 8);
    CHECK(x == 1.5);
    x = 2.5;
    memcpy((char *)vectors.xmm_space + 7 * 16, &x, 8);
    CHECK(ptrace(PTRACE_SETFPREGS, pid, 0, &vectors) == 0);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == -1 && errno == ESRCH);
    return ok();
}
