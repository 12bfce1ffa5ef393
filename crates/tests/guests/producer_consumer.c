// relive: threads=yes
// A bounded queue with two producers and two consumers, by condition variables and by semaphores.
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

enum { ROOM = 8, EACH = 1500 };
static int queue[ROOM], used, head;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static sem_t items, places;

static void put(int value, int by_semaphore) {
    if (by_semaphore) CHECK(sem_wait(&places) == 0);
    CHECK0(pthread_mutex_lock(&mutex));
    while (!by_semaphore && used == ROOM) CHECK0(pthread_cond_wait(&emptied, &mutex));
    queue[(head + used++) % ROOM] = value;
    if (!by_semaphore) CHECK0(pthread_cond_signal(&filled));
    CHECK0(pthread_mutex_unlock(&mutex));
    if (by_semaphore) CHECK(sem_post(&items) == 0);
}

static int take(int by_semaphore) {
    if (by_semaphore) CHECK(sem_wait(&items) == 0);
    CHECK0(pthread_mutex_lock(&mutex));
    while (!by_semaphore && used == 0) CHECK0(pthread_cond_wait(&filled, &mutex));
    int value = queue[head];
    head = (head + 1) % ROOM;
    used--;
    if (!by_semaphore) CHECK0(pthread_cond_signal(&emptied));
    CHECK0(pthread_mutex_unlock(&mutex));
    if (by_semaphore) CHECK(sem_post(&places) == 0);
    return value;
}

static void *producer(void *arg) {
    for (int i = 1; i <= EACH; i++) put(i, (int)(long)arg);
    return NULL;
}
static void *consumer(void *arg) {
    long sum = 0;
    for (int i = 0; i < EACH; i++) sum += take((int)(long)arg);
    return (void *)sum;
}

int main(void) {
    CHECK(sem_init(&items, 0, 0) == 0 && sem_init(&places, 0, ROOM) == 0);
    for (long way = 0; way < 2; way++) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            CHECK0(pthread_create(&threads[i], NULL, i < 2 ? producer : consumer, (void *)way));
        long total = 0;
        for (int i = 0; i < 4; i++) {
            void *sum;
            CHECK0(pthread_join(threads[i], &sum));
            total += (long)sum;
        }
        CHECK(total == 2L * EACH * (EACH + 1) / 2 && used == 0);
    }
    return ok();
}
