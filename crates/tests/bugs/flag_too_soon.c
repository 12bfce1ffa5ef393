// A plain flag says that the data is there, and is set first.
#include "bug.h"

static volatile int done, data;

static void *make(void *a) {
    done = 1;
    data = 5;
    return a;
}

static void *use(void *a) {
    while (!done) usleep(1);
    FAIL_IF(data != 5);
    return a;
}

int main(void) {
    ALL(use, make);
    return 0;
}
