// An atomic load and an atomic store where an atomic addition was meant.
#include "bug.h"

static int x;

static void *add(void *a) {
    int old = __atomic_load_n(&x, __ATOMIC_SEQ_CST);
    __atomic_store_n(&x, old + 1, __ATOMIC_SEQ_CST);
    return a;
}

int main(void) {
    ALL(add, add);
    return x != 2;
}
