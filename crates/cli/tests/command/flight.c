/* Threads that count and sleep until they have done so for a while: ROUNDS of 5 ms. The first line is the number of
   the process; then a line for each round. With a second argument it ends by a bad pointer, with a third it has a child
   that lives until its end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long count;
static volatile int *nowhere;

static void *work(void *unused)
{
    (void)unused;
    for (;;) {
        for (int i = 0; i < 500; i++) {
            pthread_mutex_lock(&lock);
            count++;
            pthread_mutex_unlock(&lock);
        }
        usleep(1000);
    }
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    printf("%d\n", getpid());
    fflush(stdout);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, work, 0);
    for (int round = 0; round < atoi(argv[1]); round++) {
        usleep(5000);
        pthread_mutex_lock(&lock);
        long now = count;
        pthread_mutex_unlock(&lock);
        printf("round %d: %ld\n", round, now);
        fflush(stdout);
        if (argc > 3 && round == atoi(argv[3]) && prctl(0x524c564b) == 0)
            return 1;
    }
    if (argc > 2 && argv[2][0] == 'x')
        *nowhere = 1;
    return argc > 2 ? atoi(argv[2]) : 0;
}
