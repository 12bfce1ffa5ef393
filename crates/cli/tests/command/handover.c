// Two threads hand a turn to each other by plain stores, and wait for it in loops of plain loads: how often they
// go round is all that tells of the order.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile int turn, sum;
static int rounds = 2;

static void *other(void *a) {
    for (int i = 0; i < rounds; i++) {
        while (turn != 1) {}
        sum = sum * 3 + i;
        turn = 0;
        if (getppid() == 0) return a;
    }
    return a;
}

int main(void) {
    pthread_t t;
    pthread_create(&t, NULL, other, NULL);
    for (int i = 0; i < rounds; i++) {
        while (turn != 0) {}
        sum = sum * 5 + 1;
        turn = 1;
        if (getppid() == 0) return 1;
    }
    pthread_join(t, NULL);
    printf("%d\n", sum);
    return 0;
}
