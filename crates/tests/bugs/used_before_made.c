// A thread begins before the pointer that it uses is there.
#include "bug.h"

static int *volatile made;

static void *use(void *a) {
    for (volatile int i = 0; i < 100000; i++) continue;
    FAIL_IF(made == NULL);
    return a;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, use, NULL) != 0) abort();
    made = malloc(sizeof *made);
    pthread_join(thread, NULL);
    return 0;
}
