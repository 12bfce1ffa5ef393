// The owner does not wait for the last user.
#include "bug.h"

static int value = 1;
static int *volatile there = &value;

static void *use(void *a) {
    FAIL_IF(there == NULL);
    return a;
}

static void *drop(void *a) {
    there = NULL;
    return a;
}

int main(void) {
    pthread_t user, owner;
    if (pthread_create(&user, NULL, use, NULL) != 0) abort();
    for (volatile int i = 0; i < 100000; i++) continue;
    if (pthread_create(&owner, NULL, drop, NULL) != 0) abort();
    pthread_join(user, NULL);
    pthread_join(owner, NULL);
    return 0;
}
