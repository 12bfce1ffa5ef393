// relive:
// Calls that no kernel has, and those that a program must be able to live without: an errno,
// never a crash; bad pointers are EFAULT, bad numbers EINVAL or EBADF.
#include "check.h"
#include <sys/syscall.h>
#include <time.h>

int main(void) {
    CHECK(syscall(5000) == -1 && errno == ENOSYS);
    CHECK(syscall(-1) == -1 && errno == ENOSYS);
    CHECK(read(999, NULL, 0) == -1 && errno == EBADF);
    CHECK(syscall(SYS_clock_gettime, CLOCK_REALTIME, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_openat, -100, (void *)8, 0) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, (void *)8, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_rt_sigprocmask, 99, &errno, NULL, 8) == -1 && (errno == EINVAL || errno == EFAULT));
    CHECK(syscall(SYS_write, 1, (void *)8, 5) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_pipe2, (void *)8, 0) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_lseek, 0, 0, 77) == -1 && (errno == EINVAL || errno == ESPIPE));
    // An unknown request: the descriptor comes first.
    CHECK(syscall(SYS_ioctl, 999, 0x12345678, 0) == -1 && errno == EBADF);
    CHECK(syscall(SYS_ioctl, 0, 0x12345678, 0) == -1 && errno == ENOTTY);
    CHECK(syscall(SYS_fcntl, 999, 7777, 0) == -1 && errno == EBADF);
    CHECK(syscall(SYS_setsockopt, 999, 1, 7777, NULL, 0) == -1 && errno == EBADF);
    CHECK(kill(getpid(), 77) == -1 && errno == EINVAL);
    // An upper half that is not zero in a 32-bit argument is ignored.
    CHECK(syscall(SYS_getpgid, 0x100000000) == getpgrp());
    // A system call leaves every register alone but rax, rcx (the next address) and r11.
    register long r8 __asm__("r8") = 8, r9 __asm__("r9") = 9, r10 __asm__("r10") = 10;
    register long r12 __asm__("r12") = 12, r15 __asm__("r15") = 15;
    long result, rdi = 1, rsi = 2, rdx = 3, next, rcx;
    __asm__ volatile("syscall\n1: lea 1b(%%rip), %4"
                     : "=a"(result), "+D"(rdi), "+S"(rsi), "+d"(rdx), "=&b"(next), "=c"(rcx), "+r"(r8), "+r"(r9),
                       "+r"(r10), "+r"(r12), "+r"(r15)
                     : "a"(SYS_getpid)
                     : "r11", "memory");
    CHECK(result == getpid() && rdi == 1 && rsi == 2 && rdx == 3 && rcx == next);
    CHECK(r8 == 8 && r9 == 9 && r10 == 10 && r12 == 12 && r15 == 15);
    return ok();
}
