// For the tests with hostile debuggers: threads, calls, output, a signal, a file that is read,
// and, if it is asked to, a long time in which nothing happens.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile long counter;
volatile long never;
char text[64] = "what a client reads";

static void noticed(int number)
{
    counter += number;
}

int add(int a, int b)
{
    counter += a;
    return a + b;
}

static void *work(void *arg)
{
    int sum = 0;
    for (int i = 0; i < 200; i++)
        sum = add(i, sum);
    return (void *)(long)(sum + (long)arg);
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    long rounds = argc > 1 ? atol(argv[1]) : 1000;
    signal(SIGUSR1, noticed);
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    raise(SIGUSR1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    printf("begun %ld\n", counter);
    fflush(stdout);
    for (volatile long i = 0; i < rounds; i++)
        counter += i & 1;
    never = 1;
    printf("done %ld\n", counter);
    return 0;
}
