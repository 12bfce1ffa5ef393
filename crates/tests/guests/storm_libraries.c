// relive: threads=yes flags="-ldl" timeout=120
// Threads load and drop libraries while others run their code, and code of their own.
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { LOADERS = 3, ROUNDS = 25 };
static atomic_int stop;

static void *loader(void *arg) {
    long me = (long)arg;
    for (int i = 0; i < ROUNDS; i++) {
        if ((i + me) % 2) {
            void *lib = dlopen("libm.so.6", RTLD_NOW);
            CHECK(lib != NULL);
            double (*power)(double, double) = (double (*)(double, double))dlsym(lib, "pow");
            double (*root)(double) = (double (*)(double))dlsym(lib, "sqrt");
            CHECK(power && root && power(2, 10) == 1024 && root(81) == 9);
            CHECK(dlclose(lib) == 0);
        } else {
            void *lib = dlopen("libresolv.so.2", RTLD_LAZY);
            CHECK(lib != NULL);
            CHECK(dlsym(lib, "ns_get16") || dlsym(lib, "__dn_skipname"));
            CHECK(dlclose(lib) == 0);
        }
    }
    return NULL;
}

static int up(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void *worker(void *arg) {
    while (!atomic_load(&stop)) {
        int numbers[40];
        for (int i = 0; i < 40; i++) numbers[i] = i * 7 % 40;
        qsort(numbers, 40, sizeof *numbers, up);
        for (int i = 0; i < 40; i++) CHECK(numbers[i] == i);
        char text[40];
        CHECK(snprintf(text, sizeof text, "%d-%s", 17, "x") == 4 && strcmp(text, "17-x") == 0);
    }
    return arg;
}

int main(void) {
    pthread_t loaders[LOADERS], workers[2];
    for (int i = 0; i < 2; i++) CHECK0(pthread_create(&workers[i], NULL, worker, NULL));
    for (long i = 0; i < LOADERS; i++) CHECK0(pthread_create(&loaders[i], NULL, loader, (void *)i));
    for (int i = 0; i < LOADERS; i++) CHECK0(pthread_join(loaders[i], NULL));
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) CHECK0(pthread_join(workers[i], NULL));
    return ok();
}
