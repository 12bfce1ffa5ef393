// The balance is checked under the lock, and changed under the next one.
#include "bug.h"

static int balance = 100;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *take(void *a) {
    pthread_mutex_lock(&m);
    bool enough = balance >= 60;
    pthread_mutex_unlock(&m);
    if (!enough) return a;
    pthread_mutex_lock(&m);
    balance -= 60;
    pthread_mutex_unlock(&m);
    return a;
}

int main(void) {
    ALL(take, take);
    return balance < 0;
}
