/* Threads that lose updates, a child process, a signal: something for every way of travelling.
   Prints the addresses that the test watches. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int shared, alone;
static int *mapped = &alone;
static char text[64];
static volatile int caught;

__attribute__((noinline)) int bump(int by)
{
    int old = shared;
    old += by;
    ++*mapped;
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
    int file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, 4096))
        return 1;
    mapped = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        return 1;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    memmove(text + 5, text, 9);
    printf("%d %d %s %p\n", shared, caught, text, (void *)mapped);
    return WEXITSTATUS(status);
}
