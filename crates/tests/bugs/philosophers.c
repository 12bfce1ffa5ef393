// Four philosophers take the left fork first.
#include "bug.h"

enum { N = 4 };
static pthread_mutex_t forks[N] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                   PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static int eaten;

static void *eat(void *a) {
    long left = (long)a, right = (left + 1) % N;
    pthread_mutex_lock(&forks[left]);
    pthread_mutex_lock(&forks[right]);
    __atomic_add_fetch(&eaten, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&forks[right]);
    pthread_mutex_unlock(&forks[left]);
    return a;
}

int main(void) {
    ALL(eat, eat, eat, eat);
    return eaten != N;
}
