#include <pthread.h>
#include <stdio.h>

#define N 2000
long total;
long seen[3];

void pay(int who)
{
    long old = total;
    seen[who]++;
    total = old + 1;
}

void *worker(void *arg)
{
    int who = (int)(long)arg;
    for (int i = 0; i < N; i++)
        pay(who);
    return 0;
}

int main(void)
{
    pthread_t threads[3];
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, worker, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    printf("%ld of %d\n", total, 3 * N);
    return 0;
}
