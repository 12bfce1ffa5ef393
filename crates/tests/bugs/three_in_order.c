// Only one order of three threads fails, the reverse of their beginnings.
#include "bug.h"

static volatile int state;

static void *step(int from) {
    if (state == from) state = from + 1;
    return NULL;
}

static void *one(void *a) { return (void)a, step(0); }
static void *two(void *a) { return (void)a, step(1); }
static void *three(void *a) { return (void)a, step(2); }

int main(void) {
    ALL(three, two, one);
    return state == 3;
}
