// relive: threads=yes sketch=yes timeout=120
// Threads make, run and drop more code than one would want to keep translated, and change code
// that is still to be returned to.
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

enum { THREADS = 3, ROUNDS = 80, FUNCTIONS = 100, ROOM = 32, BYTES = 4096 };

struct worker {
    unsigned char *code;
    int lasting; // not writable while it runs
    unsigned up;
};
static __thread struct worker *me;

// function i: add $down, %rdi; call the next one; add $up, %rax; ret
static void write_up(struct worker *w, unsigned up) {
    for (int i = 0; i < FUNCTIONS; i++) memcpy(w->code + i * ROOM + 14, &up, 4);
    w->up = up;
}

static void make(struct worker *w, unsigned down, unsigned up) {
    for (int i = 0; i < FUNCTIONS; i++) {
        unsigned char function[19] = {0x48, 0x81, 0xc7, 0, 0, 0, 0, 0xe8, ROOM - 12, 0, 0, 0, 0x48, 0x05, 0, 0, 0, 0, 0xc3};
        memcpy(function + 3, &down, 4);
        memcpy(w->code + i * ROOM, function, sizeof function);
    }
    // jmp *%rdx
    memcpy(w->code + FUNCTIONS * ROOM, (unsigned char[]){0xff, 0xe2}, 2);
    write_up(w, up);
}

static void protect(struct worker *w, int prot) {
    if (w->lasting) CHECK(mprotect(w->code, BYTES, prot) == 0);
}

static unsigned char *map(void) {
    void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

// Called with all the functions on the stack.
static long bottom(long sum) {
    protect(me, PROT_READ | PROT_WRITE);
    write_up(me, me->up + 1);
    protect(me, PROT_READ | PROT_EXEC);
    return sum;
}

static void *work(void *arg) {
    struct worker w = {map(), (long)arg % 2, 0};
    me = &w;
    for (unsigned i = 0; i < ROUNDS; i++) {
        make(&w, 3 * i + (unsigned)(long)arg, 5 * i);
        protect(&w, PROT_READ | PROT_EXEC);
        long (*first)(long, long, long (*)(long)) = (long (*)(long, long, long (*)(long)))w.code;
        long sum = first(1, 0, bottom);
        CHECK(sum == 1 + FUNCTIONS * (3L * i + (long)arg + 5L * i + 1));
        if (i % 4 == 3) {
            CHECK(munmap(w.code, BYTES) == 0);
            w.code = map();
        }
        protect(&w, PROT_READ | PROT_WRITE);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    return ok();
}
