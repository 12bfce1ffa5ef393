/* Something for every kind of beginning: threads asleep in calls, a handler that makes calls and is interrupted, an
   interrupted sleep, a robust lock that is held, a child between fork and exec, one of vfork. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int pipes[2], depth;
static pthread_mutex_t lock;

static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(9);
}

static void second(int sig)
{
    (void)sig;
    depth++;
    say("second handler\n");
    getppid();
}

static void first(int sig)
{
    (void)sig;
    depth++;
    say("first handler\n");
    raise(SIGUSR2);
    getppid();
    say("first handler ends\n");
}

static void *reader(void *unused)
{
    char text[16];
    (void)unused;
    ssize_t n = read(pipes[0], text, sizeof text);
    say(n == 5 ? "read\n" : "not read\n");
    return 0;
}

static void *holder(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    getppid();
    say("holds the lock\n");
    return 0;
}

int main(void)
{
    pthread_t threads[2];
    pthread_mutexattr_t robust;
    struct sigaction action = {.sa_handler = first};
    sigaction(SIGUSR1, &action, 0);
    sigaction(SIGALRM, &action, 0);
    action.sa_handler = second;
    sigaction(SIGUSR2, &action, 0);
    if (pipe(pipes))
        return 1;
    pthread_create(&threads[0], 0, reader, 0);
    raise(SIGUSR1);
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&lock, &robust);
    pthread_create(&threads[1], 0, holder, 0);
    pthread_join(threads[1], 0);
    if (pthread_mutex_lock(&lock) != EOWNERDEAD)
        return 2;
    struct itimerval soon = {.it_value.tv_usec = 20000};
    setitimer(ITIMER_REAL, &soon, 0);
    struct timespec long_time = {.tv_sec = 20};
    if (nanosleep(&long_time, 0) != -1)
        return 3;
    int status;
    pid_t child = fork();
    if (child == 0) {
        say("child\n");
        execl("/bin/sh", "sh", "-c", "echo in the shell", (char *)0);
        _exit(1);
    }
    waitpid(child, &status, 0);
    child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    waitpid(child, &status, 0);
    if (write(pipes[1], "hello", 5) != 5)
        return 4;
    pthread_join(threads[0], 0);
    printf("%d\n", depth);
    return depth == 4 ? 5 : 6;
}
