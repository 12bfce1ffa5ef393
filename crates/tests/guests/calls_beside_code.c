// relive: link=pie
// The kernel writes to pages with code that has just run.
#include "check.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>

enum { PAGE = 4096, PAGES = 16 };

static unsigned char *code, *data;
static int number;

static int call(const unsigned char *at) { return ((int (*)(void))at)(); }

// New code at the start of a page, which runs.
static void renew(unsigned char *at) {
    unsigned char load[] = {0xb8, 0, 0, 0, 0, 0xc3}; // mov $number, %eax; ret
    number++;
    memcpy(load + 1, &number, 4);
    memcpy(at, load, sizeof load);
    CHECK(call(at) == number);
}

// A call that writes behind the code, which must work, and the code must stay as it was.
#define WRITES(what)                                                                     \
    do {                                                                                 \
        renew(code);                                                                     \
        CHECK(what);                                                                     \
        CHECK(call(code) == number);                                                     \
    } while (0)

static void *word(int value) {
    memcpy(data, &value, sizeof value);
    return data;
}

static int held(void) { return *(int *)data; }

static void descriptors(void) {
    int zero = open("/dev/zero", O_RDONLY);
    struct iovec parts[2] = {{data, 10}, {data + 500, 2000}};
    memset(data, 1, 3000);
    WRITES(read(zero, data, 100) == 100 && data[99] == 0 && data[100] == 1);
    WRITES(readv(zero, parts, 2) == 2010 && data[2499] == 0);
    WRITES(pipe((int *)data) == 0);
    int *pair = (int *)data, in = pair[0], out = pair[1];
    WRITES(socketpair(AF_UNIX, SOCK_STREAM, 0, (int *)data) == 0);
    int one = pair[0], other = pair[1];
    CHECK(write(one, "hello", 5) == 5);
    struct msghdr *message = (struct msghdr *)(data + 1000);
    parts[0].iov_len = 5;
    memset(message, 0, sizeof *message);
    message->msg_iov = parts;
    message->msg_iovlen = 1;
    message->msg_control = data + 500;
    message->msg_controllen = 100;
    WRITES(recvmsg(other, message, 0) == 5 && memcmp(data, "hello", 5) == 0 && message->msg_controllen == 0);
    struct mmsghdr *many = (struct mmsghdr *)data;
    struct iovec text = {"many", 4};
    memset(many, 0, 2 * sizeof *many);
    many[0].msg_hdr.msg_iov = many[1].msg_hdr.msg_iov = &text;
    many[0].msg_hdr.msg_iovlen = many[1].msg_hdr.msg_iovlen = 1;
    WRITES(sendmmsg(one, many, 2, 0) == 2 && many[0].msg_len == 4 && many[1].msg_len == 4);
    struct pollfd *asked = (struct pollfd *)data;
    *asked = (struct pollfd){.fd = out, .events = POLLOUT};
    WRITES(poll(asked, 1, 0) == 1 && asked->revents == POLLOUT);
    struct epoll_event event = {.events = EPOLLOUT};
    int set = epoll_create1(0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, out, &event) == 0);
    WRITES(epoll_wait(set, (struct epoll_event *)data, 1, 0) == 1);
    WRITES(fstat(zero, (struct stat *)data) == 0 && S_ISCHR(((struct stat *)data)->st_mode));
    close(zero), close(in), close(out), close(one), close(other), close(set);
}

static void processes(void) {
    pid_t child = fork();
    if (child == 0) _exit(3);
    WRITES(waitpid(child, word(0), 0) == child && WEXITSTATUS(held()) == 3);
    renew(code);
    child = (pid_t)syscall(SYS_clone, CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, 0, data, data + 8, 0);
    if (child == 0) _exit(*(int *)(data + 8) == getpid() ? 4 : 5);
    CHECK(held() == child && call(code) == number);
    expect_exit(child, 4);
    char text[100] = "text";
    struct iovec here = {data, 100}, there = {text, 100};
    WRITES(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 100 && memcmp(data, text, 100) == 0);
    text[0] = 'n';
    WRITES(process_vm_writev(getpid(), &there, 1, &here, 1, 0) == 100 && memcmp(data, text, 100) == 0);
    WRITES(getrusage(RUSAGE_SELF, (struct rusage *)data) == 0);
    WRITES(uname((struct utsname *)data) == 0);
    WRITES(clock_gettime(CLOCK_REALTIME, (struct timespec *)data) == 0);
    WRITES(syscall(SYS_clock_gettime, CLOCK_REALTIME, data) == 0);
}

static void futexes(void) {
    const int add = FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 5);
    WRITES(syscall(SYS_futex, data + 8, FUTEX_WAKE_OP, 1, 1L, word(5), add) == 0 && held() == 6);
    WRITES(syscall(SYS_futex, word(0), FUTEX_LOCK_PI, 0, NULL, NULL, 0) == 0 && held() == gettid());
    WRITES(syscall(SYS_futex, data, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) == 0 && held() == 0);
}

static volatile int handled;

static void count(int sent, siginfo_t *info, void *context) {
    (void)info, (void)context;
    handled += sent == SIGUSR1;
}

// All of the handler's stack has code.
static void signals(void) {
    stack_t stack = {.ss_sp = code, .ss_size = PAGES * PAGE};
    CHECK(sigaltstack(&stack, NULL) == 0);
    handle(SIGUSR1, count, SA_ONSTACK);
    for (int round = 1; round < 4; round++) {
        for (int i = 0; i < PAGES; i++) renew(code + i * PAGE);
        CHECK(raise(SIGUSR1) == 0 && handled == round && call(code) == number - PAGES + 1);
    }
    renew(code);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &mask, NULL) == 0 && raise(SIGUSR1) == 0);
    WRITES(sigpending((sigset_t *)data) == 0 && sigismember((sigset_t *)data, SIGUSR1));
    WRITES(sigwaitinfo(&mask, (siginfo_t *)data) == SIGUSR1);
}

int main(void) {
    code = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    data = code + 64;
    descriptors();
    processes();
    futexes();
    signals();
    return ok();
}
