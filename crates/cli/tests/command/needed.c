/* Threads that meet all the time, while another one needs them at rest: it forks. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile unsigned sums[3];
static _Atomic int over, meet;
static void *busy(void *x)
{
    unsigned *s = (unsigned *)&sums[(long)x];
    while (!over)
        for (int i = 0; i < 50; i++)
            *(volatile unsigned *)s = *s * 31 + i, meet++;
    return 0;
}
int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, busy, (void *)0L);
    pthread_create(&b, 0, busy, (void *)1L);
    for (int i = 0; i < 60; i++) {
        int p = fork();
        if (!p) _exit(0);
        waitpid(p, 0, 0);
    }
    over = 1;
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
