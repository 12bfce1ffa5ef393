// The last user frees: two are the last, or none is.
#include "bug.h"

static volatile int users = 2, freed;

static void *drop(void *a) {
    int left = users - 1;
    users = left;
    if (users == 0) freed = freed + 1;
    return a;
}

int main(void) {
    ALL(drop, drop);
    return freed != 1;
}
