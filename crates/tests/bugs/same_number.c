// Numbers that must differ are taken from a plain counter.
#include "bug.h"

static volatile int counter;
static int given[3];

static void *number(void *a) {
    given[(long)a] = counter;
    counter = given[(long)a] + 1;
    return a;
}

int main(void) {
    ALL(number, number, number);
    return given[0] == given[1] || given[1] == given[2] || given[0] == given[2];
}
