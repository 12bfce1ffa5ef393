/* A thread, and children by clone and clone3 as fork makes them. */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *nothing(void *argument)
{
    return argument;
}

static void child(long pid)
{
    int status;
    if (pid == 0)
        _exit(3);
    waitpid((pid_t)pid, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
}

int main(void)
{
    pthread_t thread;
    struct clone_args args = {.exit_signal = SIGCHLD};
    pthread_create(&thread, NULL, nothing, NULL);
    pthread_join(thread, NULL);
    child(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    child(syscall(SYS_clone3, &args, sizeof args));
    printf("end\n");
    return 0;
}
