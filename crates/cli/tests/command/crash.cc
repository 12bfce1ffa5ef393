// A program that crashes a few calls deep: in an inlined function, below a signal's handler if
// it has an argument, else in a thread.
#include <csignal>
#include <cstdio>
#include <pthread.h>

namespace deep {
struct Box {
    long total;
    void fall(int n);
};
}

deep::Box box;
volatile int *nowhere;

static inline __attribute__((always_inline)) void poke(int n) { *nowhere = n; }

__attribute__((noinline)) void deep::Box::fall(int n) {
    total += n;
    if (n == 0)
        poke(n);
    else
        fall(n - 1);
    total += 1;
}

extern "C" __attribute__((noinline)) long triple(long a) {
    asm volatile("" : "+r"(a));
    return a * 3;
}

static void *work(void *) {
    box.fall(3);
    return nullptr;
}

static void on_signal(int) { box.fall(2); }

int main(int argc, char **) {
    std::printf("%ld\n", triple(argc) + triple(5));
    std::fflush(stdout);
    if (argc > 1) {
        signal(SIGUSR1, on_signal);
        raise(SIGUSR1);
    }
    pthread_t thread;
    if (pthread_create(&thread, nullptr, work, nullptr)) return 1;
    pthread_join(thread, nullptr);
}
