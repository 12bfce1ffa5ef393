// relive: output=free expect="ok\n" timeout=40 sketch=yes parallel=refused
// A tree of ten processes, waits of all kinds, signals to children, SIGCHLD, an orphan,
// process groups and a new session.
#include "check.h"
#include <poll.h>
#include <sys/prctl.h>

static volatile int chlds;
static void on_chld(int number, siginfo_t *info, void *context) {
    (void)context;
    CHECK(number == SIGCHLD && (info->si_code == CLD_EXITED || info->si_code == CLD_KILLED));
    chlds++;
}

static int grow(int depth) {
    int total = 1;
    pid_t kids[2];
    int count = depth > 0 ? 2 : 0;
    for (int i = 0; i < count; i++) {
        kids[i] = fork();
        CHECK(kids[i] >= 0);
        if (kids[i] == 0) _exit(grow(depth - 1));
    }
    for (int i = 0; i < count; i++) {
        int status;
        CHECK(waitpid(kids[i], &status, 0) == kids[i] && WIFEXITED(status));
        total += WEXITSTATUS(status);
    }
    return total;
}

int main(void) {
    pid_t more = fork();
    CHECK(more >= 0);
    if (more == 0) _exit(grow(1));
    CHECK(grow(2) == 7);
    expect_exit(more, 3);

    handle(SIGCHLD, on_chld, SA_RESTART);
    int gate[2], status;
    CHECK(pipe(gate) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte;
        close(gate[1]);
        CHECK(read(gate[0], &byte, 1) == 0);
        for (;;) pause();
    }
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    siginfo_t info;
    info.si_pid = 0;
    CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0);
    close(gate[1]);
    CHECK(kill(child, SIGUSR1) == 0);
    CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
    CHECK(info.si_pid == child && info.si_code == CLD_KILLED && info.si_status == SIGUSR1);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    while (chlds < 1) poll(NULL, 0, 1);

    // Stopped and continued; the handler above knows of neither.
    struct sigaction quiet = {.sa_handler = SIG_DFL};
    CHECK(sigaction(SIGCHLD, &quiet, NULL) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        raise(SIGSTOP);
        _exit(6);
    }
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(kill(child, SIGCONT) == 0);
    expect_exit(child, 6);

    // An orphan is handed to this process, the subreaper.
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    int report[2];
    CHECK(pipe(report) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pid_t middle = getpid(), orphan = fork();
        CHECK(orphan >= 0);
        if (orphan == 0) {
            while (getppid() == middle) poll(NULL, 0, 1);
            pid_t me[2] = {getpid(), getppid()};
            CHECK(write(report[1], me, sizeof me) == sizeof me);
            _exit(8);
        }
        _exit(0);
    }
    expect_exit(child, 0);
    pid_t orphan[2];
    CHECK(read(report[0], orphan, sizeof orphan) == sizeof orphan && orphan[1] == getpid());
    expect_exit(orphan[0], 8);

    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid());
        pid_t member = fork();
        CHECK(member >= 0);
        if (member == 0)
            for (;;) pause();
        CHECK(setpgid(member, member) == 0 && getpgid(member) == member);
        CHECK(kill(-member, SIGTERM) == 0);
        CHECK(waitpid(-member, &status, 0) == member && WTERMSIG(status) == SIGTERM);
        _exit(0);
    }
    expect_exit(child, 0);
    printf("child %d\n", (int)child);
    return ok();
}
