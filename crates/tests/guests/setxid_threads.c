// relive: link=pie,static threads=yes sketch=yes
// The C library changes the ids of all threads by a signal of its own, whose action it has set before the first thread was made.
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static atomic_int begun, over;

static void *waits(void *unused) {
    atomic_fetch_add(&begun, 1);
    while (!atomic_load(&over)) usleep(500);
    CHECK(syscall(SYS_getegid) == (long)getegid());
    return unused;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, waits, NULL) == 0);
    while (atomic_load(&begun) < 3) usleep(500);
    CHECK(setgid(getgid()) == 0);
    CHECK(setresuid(getuid(), getuid(), getuid()) == 0);
    atomic_store(&over, 1);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    CHECK(setgid(getgid()) == 0);
    puts("ok");
    return 0;
}
