// A ring buffer: the count goes up before the item is there.
#include "bug.h"

static volatile int items[4], head, tail;

static void *put(void *a) {
    for (int i = 1; i <= 3; i++) {
        head = head + 1;
        items[(head - 1) % 4] = i;
    }
    return a;
}

static void *get(void *a) {
    for (int i = 0; i < 50; i++) {
        if (tail == head) continue;
        FAIL_IF(items[tail % 4] == 0);
        tail = tail + 1;
    }
    return a;
}

int main(void) {
    ALL(put, get);
    return 0;
}
