// A reader between two neighbouring stores, among 5 threads.
#include "bug.h"

static volatile int first, second, others[32];

static void *change(void *a) {
    first = 1;
    second = 1;
    return a;
}

static void *look(void *a) {
    int one = first, two = second;
    FAIL_IF(one != two);
    return a;
}

static void *other(void *a) {
    others[(long)a]++;
    return a;
}

int main(void) {
    ALL(other, other, look, other, change);
    return 0;
}
