/* A parent and its child that take turns in memory that they share. */
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
    pthread_mutex_t lock;
    volatile long turn;
    volatile long value;
};

static struct shared *common;

void child(void)
{
    for (long i = 0; i < 3; i++) {
        while (common->turn != 1)
            usleep(100);
        common->value = 100 + i;
        common->turn = 0;
    }
    _exit(5);
}

void use(long value)
{
    printf("got %ld\n", value);
}

int main(void)
{
    common = mmap(0, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED)
        return 1;
    if (fork() == 0)
        child();
    for (long i = 0; i < 3; i++) {
        common->turn = 1;
        while (common->turn != 0)
            usleep(100);
        use(common->value);
    }
    int status;
    wait(&status);
    return WEXITSTATUS(status);
}
