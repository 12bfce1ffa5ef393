// Two threads make the only one.
#include "bug.h"

static int *volatile only;
static int made;

static void *get(void *a) {
    if (only == NULL) {
        only = malloc(sizeof *only);
        __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    }
    return a;
}

int main(void) {
    ALL(get, get);
    return made != 1;
}
