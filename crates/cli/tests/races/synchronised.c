// Mutexes, read-write locks, recursive locks, spin locks, condition variables, semaphores, barriers, once,
// C11 atomics, pipes, events, sockets, signals, the heap and streams: all that orders threads properly.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdatomic.h>
#include <unistd.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <poll.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, rec; static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER; static sem_t sem; static pthread_barrier_t bar;
static pthread_once_t once = PTHREAD_ONCE_INIT; static pthread_spinlock_t spin;
static int d_mutex, d_cond, ready, d_rw, d_sem, d_bar[4], d_once, d_spin, d_pipe, d_ev, d_sock, d_atomic, d_heap, d_rec; static atomic_int flag; static int pipes[2], ev, sk[2];
struct box { _Atomic(int) full; int content; }; static struct box *box;
static void init(void) { d_once = 5; }
static void *w(void *arg) {
    long me = (long)arg;
    for (int i = 0; i < 200; i++) { pthread_mutex_lock(&m); d_mutex++; pthread_mutex_unlock(&m);
        pthread_mutex_lock(&rec); pthread_mutex_lock(&rec); d_rec++; pthread_mutex_unlock(&rec); pthread_mutex_unlock(&rec);
        if (i % 10 == 0) { pthread_rwlock_wrlock(&rw); d_rw++; pthread_rwlock_unlock(&rw); } else { pthread_rwlock_rdlock(&rw); (void)*(volatile int *)&d_rw; pthread_rwlock_unlock(&rw); }
        pthread_spin_lock(&spin); d_spin++; pthread_spin_unlock(&spin); 
        char *p = malloc(10 + i); memset(p, i, 10 + i); free(p); }
    pthread_once(&once, init); (void)*(volatile int *)&d_once;
    d_bar[me] = me; pthread_barrier_wait(&bar); int s = 0; for (int i = 0; i < 4; i++) s += d_bar[i]; pthread_barrier_wait(&bar);
    sem_wait(&sem); d_sem++; sem_post(&sem);
    printf("thread %ld %d\n", me, s);
    if (me == 0) { d_cond = 9; pthread_mutex_lock(&m); ready = 1; pthread_cond_broadcast(&c); pthread_mutex_unlock(&m);
        d_pipe = 3; write(pipes[1], "x", 1); d_ev = 4; uint64_t one = 1; write(ev, &one, 8); d_sock = 5; write(sk[0], "y", 1);
        d_atomic = 6; atomic_store_explicit(&flag, 1, memory_order_release);
        box->content = 8; atomic_store_explicit(&box->full, 1, memory_order_release); }
    if (me == 1) { pthread_mutex_lock(&m); while (!ready) pthread_cond_wait(&c, &m); pthread_mutex_unlock(&m); (void)*(volatile int *)&d_cond; }
    if (me == 2) { char b[8]; read(pipes[0], b, 1); (void)*(volatile int *)&d_pipe; struct pollfd f = { ev, POLLIN, 0 }; poll(&f, 1, -1); (void)*(volatile int *)&d_ev; read(sk[1], b, 1); (void)*(volatile int *)&d_sock; }
    if (me == 3) { while (!atomic_load_explicit(&flag, memory_order_acquire)) sched_yield(); (void)*(volatile int *)&d_atomic;
       while (!atomic_load_explicit(&box->full, memory_order_acquire)) sched_yield(); (void)*(volatile int *)&box->content; }
    return malloc(20);
}
static volatile sig_atomic_t got; static int d_sig; static void h(int s) { got = 1; (void)*(volatile int *)&d_sig; }
static void *sigged(void *a) { while (!got) usleep(100); return a; }
int main(void) {
    pthread_mutexattr_t at; pthread_mutexattr_init(&at); pthread_mutexattr_settype(&at, PTHREAD_MUTEX_RECURSIVE); pthread_mutex_init(&rec, &at);
    sem_init(&sem, 0, 1); pthread_barrier_init(&bar, 0, 4); pthread_spin_init(&spin, 0); pipe(pipes); ev = eventfd(0, 0); socketpair(AF_UNIX, SOCK_STREAM, 0, sk); box = calloc(1, sizeof *box);
    pthread_t t[4]; for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, w, (void *)i);
    for (int i = 0; i < 4; i++) { void *r; pthread_join(t[i], &r); free(r); }
    signal(SIGUSR1, h); pthread_t u; pthread_create(&u, 0, sigged, 0); d_sig = 1; pthread_kill(u, SIGUSR1); pthread_join(u, 0);
    printf("%d %d %d %d\n", d_mutex, d_rw, d_spin, d_sem);
    return 0;
}
