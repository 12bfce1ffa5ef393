// relive: threads=yes sketch=yes flags="-pthread -Wno-nonnull" expect="ok\n"
// Pointers to where a guest has no memory, but its host may have: the kernel refuses them, writes
// nothing there and reads nothing from there.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static const unsigned long where[] = {
    0x40000000, 0x40000800, 0x54000000, 0x54001000, 0x54940000, 0x54948000,
    0x58000000, 0x60000000, 0xe0000000, 0x500000000000,
};

static void faults(const char *what, unsigned long at, long result)
{
    if (result != -1 || errno != EFAULT) {
        printf("%s %#lx: %ld, %s\n", what, at, result, strerror(errno));
        exit(1);
    }
}

static void *try_all(void *unused)
{
    int file = open("/proc/self/cmdline", O_RDONLY), pipes[2], sockets[2];
    char byte[8] = "byte";
    if (file < 0 || pipe(pipes) || socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets))
        exit(2);
    for (unsigned i = 0; i < sizeof where / sizeof *where; i++) {
        void *at = (void *)where[i];
        faults("read", where[i], read(file, at, 8));
        faults("fstat", where[i], fstat(file, at));
        faults("write", where[i], write(pipes[1], at, 8));
        // Standard output has a way of its own.
        faults("output", where[i], write(1, at, 8));
        faults("open", where[i], open(at, O_RDONLY));
        faults("access", where[i], access(at, F_OK));
        faults("pipe", where[i], pipe(at));
        struct iovec one = { at, 8 };
        faults("readv", where[i], readv(file, &one, 1));
        faults("writev", where[i], writev(pipes[1], &one, 1));
        faults("output of a vector", where[i], writev(1, &one, 1));
        faults("output of", where[i], writev(1, at, 1));
        faults("readv of", where[i], readv(file, at, 1));
        struct msghdr message = { .msg_iov = &one, .msg_iovlen = 1 };
        faults("sendmsg", where[i], sendmsg(sockets[0], &message, 0));
        faults("sendmsg of", where[i], sendmsg(sockets[0], at, 0));
        if (write(sockets[0], byte, 4) != 4)
            exit(3);
        faults("recvmsg of", where[i], recvmsg(sockets[1], at, 0));
        if (write(pipes[1], byte, 4) != 4)
            exit(3);
        // It may sleep, and is here already.
        faults("read of a pipe", where[i], read(pipes[0], at, 4));
        if (read(pipes[0], byte, 4) != 4)
            exit(4);
    }
    // The error of the descriptor comes first.
    if (read(-1, (void *)where[0], 8) != -1 || errno != EBADF)
        exit(5);
    return unused;
}

int main(void)
{
    try_all(0);
    pthread_t thread;
    if (pthread_create(&thread, 0, try_all, 0) || pthread_join(thread, 0))
        return 6;
    puts("ok");
}
