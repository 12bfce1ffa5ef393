// relive: modes=record,replay,verify
// A tracer stops its child at the entry and the exit of calls, and changes them: their numbers,
// arguments and results, and that they are made at all.
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

struct info {
    unsigned char op, pad[3];
    unsigned arch;
    unsigned long ip, sp;
    union {
        struct {
            unsigned long nr, args[6];
        } entry;
        struct {
            long rval;
            unsigned char is_error;
        } exit;
    };
};

static int child(void) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    raise(SIGSTOP);
    CHECK(syscall(SYS_getppid) > 0);
    // Turned into getpid.
    CHECK(syscall(SYS_getuid) == getpid());
    // Not made.
    CHECK(syscall(SYS_kill, 1, SIGKILL) == 99);
    // With another argument.
    CHECK(syscall(SYS_close, 1) == -1 && errno == EBADF);
    // With another result.
    CHECK(syscall(SYS_lseek, -1, 0, 0) == 1234);
    return 7;
}

static struct user_regs_struct regs;
static pid_t pid;

static void to_call(void) {
    int status;
    CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80));
    CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
}

/// Goes on to the entry of a call.
static void entry(long nr) {
    for (;;) {
        to_call();
        if ((long)regs.orig_rax == nr)
            break;
        to_call();
    }
    CHECK((long)regs.rax == -ENOSYS);
    struct info info;
    CHECK(ptrace(0x420e, pid, sizeof info, &info) == 80);
    CHECK(info.op == 1 && info.arch == 0xc000003e && info.entry.nr == (unsigned long)nr);
    CHECK(info.ip == regs.rip && info.sp == regs.rsp && info.entry.args[0] == regs.rdi);
}

static void set(void) {
    CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
}

int main(void) {
    int status;
    pid = fork();
    if (pid == 0)
        _exit(child());
    CHECK(waitpid(pid, &status, 0) == pid && WSTOPSIG(status) == SIGSTOP);
    CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
    entry(SYS_getppid);
    to_call();
    CHECK((long)regs.rax == getpid());
    struct info info;
    CHECK(ptrace(0x420e, pid, sizeof info, &info) == 33);
    CHECK(info.op == 2 && info.exit.rval == getpid() && !info.exit.is_error);

    entry(SYS_getuid);
    regs.orig_rax = SYS_getpid;
    set();
    to_call();
    CHECK((long)regs.rax == pid);

    entry(SYS_kill);
    regs.orig_rax = -1;
    set();
    to_call();
    CHECK((long)regs.rax == -ENOSYS);
    regs.rax = 99;
    set();

    entry(SYS_close);
    CHECK(regs.rdi == 1);
    regs.rdi = 12345;
    set();
    to_call();

    entry(SYS_lseek);
    to_call();
    CHECK((long)regs.rax == -EBADF);
    regs.rax = 1234;
    set();
    CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    return ok();
}
