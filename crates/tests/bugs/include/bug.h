// For the programs with bugs: each ends with status 0, or 1 (or not at all) where its bug came out.
#ifndef BUG_H
#define BUG_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define FAIL_IF(condition)     \
    do {                       \
        if (condition) exit(1); \
    } while (0)

// Runs each of `n` functions in a thread of its own, with its number as the argument, to their ends.
static inline void all(int n, void *(*const f[])(void *)) {
    pthread_t threads[32];
    for (long i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, f[i], (void *)i) != 0) abort();
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

#define ALL(...)                                                    \
    do {                                                            \
        void *(*const f[])(void *) = {__VA_ARGS__};                 \
        all(sizeof f / sizeof *f, f);                               \
    } while (0)

#endif
