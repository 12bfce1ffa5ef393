/* Threads that lose updates, a child process, a signal: something for every way of travelling.
   Prints the addresses that the test watches. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int shared;
static char text[64];
static volatile int caught;

__attribute__((noinline)) int bump(int by)
{
    int old = shared;
    old += by;
    shared = old;
    return old;
}

static void *work(void *unused)
{
    (void)unused;
    for (int i = 0; i < 3000; i++)
        bump(1);
    return 0;
}

static void handler(int sig)
{
    caught = sig;
}

int main(void)
{
    pthread_t threads[3];
    printf("%p %p %p\n", (void *)&shared, (void *)text, (void *)bump);
    fflush(stdout);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    int pipes[2];
    if (pipe(pipes))
        return 1;
    if (fork() == 0) {
        if (write(pipes[1], "from the child", 15) != 15)
            _exit(1);
        _exit(bump(41) == 41 ? 7 : 8);
    }
    if (read(pipes[0], text, sizeof text) != 15)
        return 1;
    int status;
    wait(&status);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    memmove(text + 5, text, 9);
    printf("%d %d %s\n", shared, caught, text);
    return WEXITSTATUS(status);
}
