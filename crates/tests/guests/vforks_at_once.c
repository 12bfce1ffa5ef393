// relive: threads=yes sketch=yes parallel=refused
// Several threads have vfork children at the same time, which leave in another order than they came, while other threads
// run.
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 6 };
extern char **environ;
static int born[2];
static int go[THREADS][2];

static void *parent(void *arg) {
    int me = (int)(long)arg;
    char *const argv[] = {"true", NULL};
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = vfork();
        if (child == 0) {
            char byte = (char)me;
            if (write(born[1], &byte, 1) != 1 || read(go[me][0], &byte, 1) != 1) _exit(1);
            if (byte == 1) execve("/bin/true", argv, environ);
            _exit(byte);
        }
        CHECK(child > 0);
        expect_exit(child, round % 3 == 1 ? 0 : round % 3);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    CHECK(pipe(born) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pipe(go[i]) == 0);
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, parent, (void *)i));
    for (int round = 0; round < ROUNDS; round++) {
        char order[THREADS];
        // All are there.
        for (int i = 0; i < THREADS; i++) CHECK(read(born[0], &order[i], 1) == 1);
        char byte = (char)(round % 3);
        // The first one leaves first, or the last one.
        for (int i = 0; i < THREADS; i++) {
            int next = order[round % 2 ? i : THREADS - 1 - i];
            CHECK(write(go[next][1], &byte, 1) == 1);
            usleep(1000);
        }
    }
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    return ok();
}
