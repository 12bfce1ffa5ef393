// relive: output=free
// Kernel objects of rarer kinds: inotify, pidfd, pseudo-terminals, System V shared memory,
// a connect that does not block.
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>

int main(void) {
    int watch = inotify_init1(IN_NONBLOCK), made;
    CHECK(watch >= 0 && inotify_add_watch(watch, ".", IN_CREATE | IN_DELETE) > 0);
    CHECK((made = open("seen", O_CREAT | O_RDWR, 0600)) >= 0 && unlink("seen") == 0);
    char buffer[1024] __attribute__((aligned(8)));
    ssize_t n = read(watch, buffer, sizeof buffer);
    struct inotify_event *event = (struct inotify_event *)buffer;
    CHECK(n > 0 && event->mask == IN_CREATE && strcmp(event->name, "seen") == 0);

    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        for (;;) pause();
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    CHECK(pidfd >= 0);
    struct pollfd p = {pidfd, POLLIN, 0};
    CHECK(poll(&p, 1, 0) == 0 && syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0) == 0);
    CHECK(poll(&p, 1, -1) == 1 && (p.revents & POLLIN));
    int status;
    CHECK(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGTERM);

    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master >= 0) {
        CHECK(grantpt(master) == 0 && unlockpt(master) == 0);
        int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
        struct termios settings;
        struct winsize size = {24, 80, 0, 0}, got;
        CHECK(terminal >= 0 && isatty(terminal) && !isatty(made) && tcgetattr(terminal, &settings) == 0);
        CHECK(ioctl(terminal, TIOCSWINSZ, &size) == 0 && ioctl(terminal, TIOCGWINSZ, &got) == 0 && got.ws_col == 80);
        cfmakeraw(&settings);
        CHECK(tcsetattr(terminal, TCSANOW, &settings) == 0 && write(terminal, "out", 3) == 3);
        CHECK(read(master, buffer, 3) == 3 && memcmp(buffer, "out", 3) == 0);
    }
    int waiting;
    int fds[2];
    CHECK(pipe(fds) == 0 && write(fds[1], "12345", 5) == 5 && ioctl(fds[0], FIONREAD, &waiting) == 0 && waiting == 5);

    // A kernel without System V memory says ENOSYS, which a program has to live with.
    int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    CHECK(id >= 0 || errno == ENOSYS);
    if (id >= 0) {
        int *memory = shmat(id, NULL, 0);
        CHECK(memory != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0 && memory[0] == 0);
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            memory[0] = 9;
            _exit(0);
        }
        expect_exit(child, 0);
        CHECK(memory[0] == 9 && shmdt(memory) == 0);
    }

    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    CHECK(bind(listener, (struct sockaddr *)&at, length) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
    CHECK(connect(client, (struct sockaddr *)&at, length) == 0 || errno == EINPROGRESS);
    struct pollfd writable = {client, POLLOUT, 0};
    CHECK(poll(&writable, 1, -1) == 1 && (writable.revents & POLLOUT));
    int error = -1;
    length = sizeof error;
    CHECK(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
    return ok();
}
