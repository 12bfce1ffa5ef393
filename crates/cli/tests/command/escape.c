/* A recording that is no friend of who replays it. Under Relive it writes machine code over the
 * translation of a function of its own and lets that run, so that it makes system calls that
 * nobody records or answers. As long as it is recorded these do nothing: they go on only if
 * getpid(2), asked so, is not what the recording says.
 *
 * escape WHAT PATH: what is one of the names in `main`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHE 0x40000000ul
#define CACHE_END 0x54000000ul

/* What is looked for in the cache: an immediate operand that the translation has too. */
#define MARK 0x5eed0ddba11ca11eul

static sigjmp_buf out;

static void fault(int sig)
{
    siglongjmp(out, sig);
}

/* Harmless, one stretch of code, and large enough to be written over. */
__attribute__((noinline, noclone)) static void victim(void)
{
    __asm__ volatile("movabs $0x5eed0ddba11ca11e, %%r11\n"
                     ".rept 40\n"
                     "movabs $0x1122334455667788, %%r11\n"
                     ".endr\n" ::
                         : "r11", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "memory",
                           "cc");
}

static unsigned char code[400];
static size_t used;

static void put(const void *bytes, size_t n)
{
    memcpy(code + used, bytes, n);
    used += n;
}

static void byte(unsigned char b)
{
    put(&b, 1);
}

/* mov $value, one of rax, rdi, rsi, rdx, r10 */
static void load(int what, uint64_t value)
{
    static const unsigned char head[5][2] = {
        {0x48, 0xb8}, {0x48, 0xbf}, {0x48, 0xbe}, {0x48, 0xba}, {0x49, 0xba}};
    put(head[what], 2);
    put(&value, 8);
}

static void call(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    load(0, nr);
    load(1, a);
    load(2, b);
    load(3, c);
    load(4, d);
    byte(0x0f);
    byte(0x05);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const char *what = argv[1];
    uint64_t path = (uint64_t)argv[2];
    victim();

    struct sigaction action = {.sa_handler = fault, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    if (sigsetjmp(out, 1)) {
        puts("no way in");
        return 0;
    }

    /* if (getpid() == recorded) skip what follows */
    int32_t pid = getpid();
    load(0, SYS_getpid);
    byte(0x0f);
    byte(0x05);
    byte(0x3d); /* cmp $pid, %eax */
    put(&pid, 4);
    byte(0x0f); /* je over all of it */
    byte(0x84);
    size_t hole = used;
    put("\0\0\0\0", 4);
    if (!strcmp(what, "create")) {
        call(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY, 0600);
        call(SYS_open, path, O_CREAT | O_WRONLY, 0600, 0);
    } else if (!strcmp(what, "append")) {
        call(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    } else if (!strcmp(what, "read")) {
        call(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
        /* Reached if that was allowed: tells. */
        call(SYS_write, 1, path, strlen(argv[2]), 0);
    } else if (!strcmp(what, "unlink")) {
        call(SYS_unlink, path, 0, 0, 0);
    } else if (!strcmp(what, "signal")) {
        call(SYS_kill, 0, SIGUSR1, 0, 0);
    } else if (!strcmp(what, "send")) {
        for (int fd = 3; fd < 8; fd++)
            call(SYS_sendto, fd, path, 48, 0);
    } else if (!strcmp(what, "inherited")) {
        call(SYS_write, 7, path, 8, 0);
    } else {
        return 2;
    }
    int32_t over = used - hole - 4;
    memcpy(code + hole, &over, 4);

    /* Wherever the translation lies: the mark is in it once, and not in the host's copies of
     * guest bytes, which lie elsewhere. */
    uint64_t mark = MARK;
    for (unsigned char *at = (unsigned char *)CACHE; at < (unsigned char *)CACHE_END - 512; at++) {
        if (*at == (unsigned char)mark && !memcmp(at, &mark, 8)) {
            memcpy(at + 8, code, used);
            /* The rest of what the function did has the length of its instructions. */
            size_t ends = 10 - (used % 10);
            memset(at + 8 + used, 0x90, ends % 10);
            victim();
            puts("went on");
            return 0;
        }
    }
    puts("nowhere");
    return 0;
}
