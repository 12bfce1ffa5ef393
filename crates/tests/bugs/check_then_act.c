// A pointer is checked, and read once more to be used.
#include "bug.h"

static int value = 3;
static int *volatile pointer = &value;

static void *use(void *a) {
    if (pointer != NULL) FAIL_IF(pointer == NULL);
    return a;
}

static void *drop(void *a) {
    pointer = NULL;
    return a;
}

int main(void) {
    ALL(use, drop);
    return 0;
}
