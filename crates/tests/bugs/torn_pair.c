// A sequence lock whose reader does not look at the number again.
#include "bug.h"

static volatile unsigned number;
static volatile int x, y;

static void *change(void *a) {
    number = number + 1;
    x = 1;
    y = 1;
    number = number + 1;
    return a;
}

static void *look(void *a) {
    if (number % 2 == 0) {
        int one = x, two = y;
        FAIL_IF(one != two);
    }
    return a;
}

int main(void) {
    ALL(look, change);
    return 0;
}
