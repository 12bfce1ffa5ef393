// Two threads read, add and write without a lock.
#include "bug.h"

static volatile int x;

static void *add(void *a) {
    int old = x;
    x = old + 1;
    return a;
}

int main(void) {
    ALL(add, add);
    return x != 2;
}
