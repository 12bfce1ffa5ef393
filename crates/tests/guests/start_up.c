// relive: link=pie,nopie,static,static-pie expect="constructor\nmain\nok\ndestructor\n"
// Code that runs before and after main: constructors in order, ifuncs, copy relocations,
// weak symbols, initialised thread-locals, destructors.
#include "check.h"
#include <pthread.h>

static int order;
static __thread int with_value = 77;
static __thread char zeroed[4096];

__attribute__((constructor(101))) static void first(void) { CHECK(order++ == 0); }
__attribute__((constructor(102))) static void second(void) {
    CHECK(order++ == 1);
    puts("constructor");
}
__attribute__((destructor)) static void last(void) { puts("destructor"); }

static int fast(int x) { return x + 1; }
static int (*choose(void))(int) { return fast; }
int chosen(int x) __attribute__((ifunc("choose")));
extern int not_defined_anywhere(void) __attribute__((weak));

static void *other(void *arg) {
    CHECK(with_value == 77 && zeroed[4095] == 0);
    with_value = 1;
    return arg;
}

int main(void) {
    CHECK(order == 2 && chosen(4) == 5 && &not_defined_anywhere == NULL);
    puts("main");
    zeroed[4095] = 1;
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, other, NULL));
    CHECK0(pthread_join(thread, NULL));
    CHECK(with_value == 77 && stdin != NULL && environ != NULL);
    return ok();
}
