// Threads that wait, as the argument says: in a circle while another one runs ("circle") or waits too ("cross"), all of them for nothing, or for
// an alarm and then for a lock that its holder gives back late.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t both;
static sem_t rung;

static void *crosswise(void *own) {
    int first = own != NULL;
    pthread_mutex_lock(&locks[first]);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&locks[!first]);
    return NULL;
}

static void *lock(void *unused) {
    pthread_mutex_lock(&locks[0]);
    pthread_mutex_unlock(&locks[0]);
    return unused;
}

static void ring(int unused) {
    (void)unused;
    sem_post(&rung);
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    sem_init(&rung, 0, 0);
    pthread_barrier_init(&both, NULL, 2);
    if (argc > 1 && strcmp(argv[1], "circle") == 0) {
        pthread_create(&threads[0], NULL, crosswise, NULL);
        pthread_create(&threads[1], NULL, crosswise, &both);
        for (;;)
            usleep(10000);
    }
    if (argc > 1 && strcmp(argv[1], "cross") == 0) {
        pthread_create(&threads[0], NULL, crosswise, NULL);
        crosswise(&both);
    }
    if (argc > 1 && strcmp(argv[1], "alarm") == 0) {
        signal(SIGALRM, ring);
        pthread_mutex_lock(&locks[0]);
        pthread_create(&threads[0], NULL, lock, NULL);
        alarm(1);
        while (sem_wait(&rung) != 0)
            ;
        usleep(1500000);
        pthread_mutex_unlock(&locks[0]);
        pthread_join(threads[0], NULL);
        return 0;
    }
    return sem_wait(&rung);
}
