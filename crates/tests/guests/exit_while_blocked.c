// relive: exit=7 threads=yes expect="from the handler\n"
// exit() from a thread while others sit in read, futex, a spin and a sleep; atexit runs once.
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static int pipes[2];
static sem_t never, started;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void at_exit(void) {
    puts("from the handler");
}
static void *in_read(void *arg) {
    sem_post(&started);
    CHECK(read(pipes[0], &arg, 1) == 1);
    return NULL;
}
static void *in_futex(void *arg) {
    (void)arg;
    sem_post(&started);
    sem_wait(&never);
    return NULL;
}
static void *in_lock(void *arg) {
    (void)arg;
    sem_post(&started);
    pthread_mutex_lock(&held);
    return NULL;
}
static void *in_spin(void *arg) {
    (void)arg;
    sem_post(&started);
    for (;;) __asm__ volatile("pause" : : : "memory");
}
static void *in_sleep(void *arg) {
    (void)arg;
    sem_post(&started);
    sleep(1000);
    return NULL;
}
static void *leaver(void *arg) {
    (void)arg;
    for (int i = 0; i < 5; i++) CHECK(sem_wait(&started) == 0);
    exit(7);
}

int main(void) {
    CHECK(atexit(at_exit) == 0 && pipe(pipes) == 0);
    CHECK(sem_init(&never, 0, 0) == 0 && sem_init(&started, 0, 0) == 0);
    CHECK0(pthread_mutex_lock(&held));
    void *(*bodies[])(void *) = {in_read, in_futex, in_lock, in_spin, in_sleep, leaver};
    pthread_t thread;
    for (int i = 0; i < 6; i++) CHECK0(pthread_create(&thread, NULL, bodies[i], NULL));
    for (;;) pause();
}
