// relive: threads=yes sketch=yes parallel=refused
// Signals that only a call's own mask lets in: the handler has run when the call is over. And
// calls with a time limit of the socket, which SA_RESTART does not make again.
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

static volatile int handled;
static sigset_t inside, outside;

static void count(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    sigset_t now;
    CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, number));
    handled++;
}

static void once(int number, int call) {
    struct timespec long_time = {20, 0};
    struct epoll_event event;
    int queue = epoll_create1(0), result = 0, before = handled;
    CHECK(queue >= 0 && raise(number) == 0 && handled == before);
    switch (call) {
    case 0: result = ppoll(NULL, 0, &long_time, &inside); break;
    case 1: result = pselect(0, NULL, NULL, NULL, &long_time, &inside); break;
    case 2: result = epoll_pwait(queue, &event, 1, 20000, &inside); break;
    case 3: result = (int)syscall(SYS_epoll_pwait2, queue, &event, 1, &long_time, &inside, 8); break;
    case 4: result = sigsuspend(&inside); break;
    }
    CHECK(result == -1 && (errno == EINTR || errno == ENOSYS));
    if (errno == ENOSYS) CHECK(sigsuspend(&inside) == -1);
    CHECK(handled == before + 1);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &outside) == 0 && sigismember(&outside, number));
    close(queue);
}

static pthread_t first;
static atomic_int over;

// It cannot be told from outside when a thread has begun to sleep in its call, and a signal that comes
// before does not interrupt it. So they come until the call is over.
static void *interrupt(void *arg) {
    struct timespec pause = {0, 30000000};
    (void)arg;
    while (!over) {
        CHECK0(pthread_kill(first, SIGUSR2));
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void limited(void) {
    struct timeval limit = {20, 0};
    char byte;
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    for (int call = 0; call < 2; call++) {
        pthread_t other;
        over = 0;
        CHECK0(pthread_create(&other, NULL, interrupt, NULL));
        ssize_t n = call ? recv(pair[0], &byte, 1, 0) : read(pair[0], &byte, 1);
        CHECK(n == -1 && errno == EINTR);
        over = 1;
        CHECK0(pthread_join(other, NULL));
    }
    close(pair[0]), close(pair[1]);
}

static void nothing(int number) {
    (void)number;
}

// A way back into a segment that is not for programs.
static void wrong_segment(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *word = &((ucontext_t *)context)->uc_mcontext.gregs[REG_CSGSFS];
    *word = (*word & ~0xffffll) | 0x10;
}

int main(void) {
    sigset_t blocked;
    sigemptyset(&inside);
    sigemptyset(&blocked);
    for (int number = SIGUSR1; number <= SIGTERM; number++) sigaddset(&blocked, number);
    sigdelset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGSEGV);
    CHECK(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0);
    handle(SIGUSR1, count, 0);
    handle(SIGTERM, count, SA_RESTART);
    handle(SIGSEGV, count, 0);
    for (int call = 0; call < 5; call++) {
        once(SIGUSR1, call);
        once(SIGTERM, call);
        once(SIGSEGV, call);
    }
    first = pthread_self();
    struct sigaction restart = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR2, &restart, NULL) == 0);
    limited();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        CHECK(sigprocmask(SIG_SETMASK, &inside, NULL) == 0);
        handle(SIGUSR1, wrong_segment, 0);
        raise(SIGUSR1);
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    return ok();
}
