// A thread sleeps where it should wait for another one.
#include "bug.h"

#include <unistd.h>

static volatile long value;

static void *use(void *a) {
    usleep(3000);
    FAIL_IF(value == 0);
    return a;
}

static void *make(void *a) {
    for (volatile int n = 0; n < 1000; n++) {}
    value = 7;
    return a;
}

int main(void) {
    ALL(use, make);
    return 0;
}
