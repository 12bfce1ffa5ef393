// A pointer is published before the object is filled in.
#include "bug.h"

struct object {
    volatile int value;
};
static struct object object;
static struct object *volatile published;

static void *publish(void *a) {
    published = &object;
    object.value = 7;
    return a;
}

static void *use(void *a) {
    struct object *o = published;
    FAIL_IF(o != NULL && o->value != 7);
    return a;
}

int main(void) {
    ALL(publish, use);
    return 0;
}
