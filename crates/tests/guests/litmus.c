// relive: threads=yes output=free expect="ok"
// Litmus tests of the memory model: message passing, store buffers, load buffers, independent reads of independent writes,
// two plus two writes, coherence of reads; with plain stores and locked ones. Only outcomes that x86 allows may come, and a
// replay has its recording's. An argument gives the number of rounds.
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

enum { ROUNDS = 4000, BATCH = 2000, THREADS = 4, WORDS = 2, READS = 4 };

// A round has words on lines of their own, and what its threads have read.
static struct { _Alignas(128) volatile long word; } words[BATCH][WORDS];
static long reads[BATCH][READS];
static pthread_barrier_t barrier;
static long rounds = ROUNDS;
static int here;

struct step {
    enum { NOTHING, STORE, LOCKED, LOAD } what;
    int word;
    // The value stored, or the place of the value read.
    int value;
};

struct test {
    const char *name;
    struct step steps[THREADS][2];
    // An outcome that must not come: what is read, and what the words hold in the end (-1: anything).
    int reads[READS], words[WORDS];
};

#define X(value) {STORE, 0, value}
#define Y(value) {STORE, 1, value}
#define LX(value) {LOCKED, 0, value}
#define LY(value) {LOCKED, 1, value}
#define RX(place) {LOAD, 0, place}
#define RY(place) {LOAD, 1, place}
#define ANY {-1, -1}

static const struct test tests[] = {
    {"message passing", {{X(1), Y(1)}, {RY(0), RX(1)}}, {1, 0, -1, -1}, ANY},
    {"message passing, locked", {{LX(1), LY(1)}, {RY(0), RX(1)}}, {1, 0, -1, -1}, ANY},
    // Plain stores may be read late: that outcome is counted, and allowed.
    {"store buffers", {{X(1), RY(0)}, {Y(1), RX(1)}}, {-2, 0, -1, -1}, ANY},
    {"store buffers, locked", {{LX(1), RY(0)}, {LY(1), RX(1)}}, {0, 0, -1, -1}, ANY},
    {"load buffers", {{RX(0), Y(1)}, {RY(1), X(1)}}, {1, 1, -1, -1}, ANY},
    {"load buffers, locked", {{RX(0), LY(1)}, {RY(1), LX(1)}}, {1, 1, -1, -1}, ANY},
    {"independent reads", {{X(1)}, {Y(1)}, {RX(0), RY(1)}, {RY(2), RX(3)}}, {1, 0, 1, 0}, ANY},
    {"independent reads, locked", {{LX(1)}, {LY(1)}, {RX(0), RY(1)}, {RY(2), RX(3)}}, {1, 0, 1, 0}, ANY},
    {"two plus two writes", {{X(1), Y(2)}, {Y(1), X(2)}}, {-1, -1, -1, -1}, {1, 1}},
    {"two plus two writes, locked", {{LX(1), LY(2)}, {LY(1), LX(2)}}, {-1, -1, -1, -1}, {1, 1}},
    {"coherence of reads", {{X(1)}, {RX(0), RX(1)}}, {1, 0, -1, -1}, ANY},
    {"coherence of reads, locked", {{LX(1)}, {RX(0), RX(1)}}, {1, 0, -1, -1}, ANY},
};
enum { TESTS = sizeof tests / sizeof *tests };
static long outcomes[TESTS][1 << READS];

static void take(const struct step *step, long round) {
    volatile long *word = &words[round][step->word].word;
    switch (step->what) {
    case STORE: *word = step->value; break;
    case LOCKED: __atomic_exchange_n(word, step->value, __ATOMIC_SEQ_CST); break;
    case LOAD: reads[round][step->value] = *word; break;
    case NOTHING: break;
    }
}

static bool is_forbidden(const struct test *test, long round) {
    for (int i = 0; i < READS; i++)
        if (test->reads[i] != -1 && test->reads[i] != reads[round][i]) return false;
    for (int i = 0; i < WORDS; i++)
        if (test->words[i] != -1 && test->words[i] != words[round][i].word) return false;
    return true;
}

static bool has_part(const struct test *test, long thread) { return test->steps[thread][0].what != NOTHING; }

// Threads that take part begin together, as far as there are processors for them.
static void begin(const struct test *test) {
    int all = 0;
    for (long thread = 0; thread < THREADS; thread++) all += has_part(test, thread);
    __atomic_fetch_add(&here, 1, __ATOMIC_SEQ_CST);
    for (int tries = 1; __atomic_load_n(&here, __ATOMIC_SEQ_CST) < all; tries++)
        if (tries % 100 == 0) sched_yield();
}

static void *work(void *number) {
    long thread = (long)number;
    for (int t = 0; t < TESTS; t++) {
        const struct step *steps = tests[t].steps[thread];
        for (long done = 0; done < rounds; done += BATCH) {
            if (thread == 0) {
                memset(words, 0, sizeof words);
                memset(reads, 0, sizeof reads);
                here = 0;
            }
            pthread_barrier_wait(&barrier);
            if (has_part(&tests[t], thread)) begin(&tests[t]);
            for (long round = 0; round < BATCH; round++) {
                take(&steps[0], round);
                take(&steps[1], round);
            }
            pthread_barrier_wait(&barrier);
            for (long round = 0; thread == 0 && round < BATCH; round++) {
                CHECK(!is_forbidden(&tests[t], round));
                int outcome = 0;
                for (int i = 0; i < READS; i++) outcome |= (reads[round][i] != 0) << i;
                outcomes[t][outcome]++;
            }
        }
    }
    return NULL;
}

int main(int count, char **words) {
    if (count > 1) rounds = atol(words[1]);
    CHECK0(pthread_barrier_init(&barrier, NULL, THREADS));
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    for (int t = 0; t < TESTS; t++) {
        printf("%s:", tests[t].name);
        for (int outcome = 0; outcome < 1 << READS; outcome++)
            if (outcomes[t][outcome]) printf(" %x: %ld", outcome, outcomes[t][outcome]);
        puts("");
    }
    return ok();
}
