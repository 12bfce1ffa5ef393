// A thread with two neighbouring stores, one that reads both words, and others that do neither.
#ifndef BETWEEN_STORES_H
#define BETWEEN_STORES_H

#include "bug.h"

static volatile int first, second, others[32];

static void *change(void *a) {
    first = 1;
    second = 1;
    return a;
}

static void *look(void *a) {
    int one = first, two = second;
    FAIL_IF(one != two);
    return a;
}

static void *other(void *a) {
    others[(long)a]++;
    return a;
}

#endif
