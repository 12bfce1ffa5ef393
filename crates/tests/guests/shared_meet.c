// relive: threads=yes sketch=yes parallel=refused timeout=60
// Processes that share nothing begin to: each maps two files that the other one maps too, in
// the opposite order, at the same time; and a program that was executed maps an inherited file.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAIRS = 3, ROUNDS = 100 };

static int *map(const char *name) {
    int fd = open(name, O_RDWR);
    CHECK(fd >= 0);
    int *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED && close(fd) == 0);
    return at;
}

// The two take turns in both files. To spin costs no event.
static void side(int me, int round) {
    char a[32], b[32];
    snprintf(a, sizeof a, "meet%d.%d", round, me);
    snprintf(b, sizeof b, "meet%d.%d", round, !me);
    int *own = map(a), *other = map(b);
    for (int i = 0; i < ROUNDS; i++) {
        __atomic_fetch_add(other, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(own, __ATOMIC_SEQ_CST) <= i) __builtin_ia32_pause();
    }
    _exit(*own == ROUNDS ? 0 : 1);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        // The executed program: fd 9 is the memory.
        int *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 9, 0);
        CHECK(at != MAP_FAILED);
        while (__atomic_load_n(at, __ATOMIC_SEQ_CST) != 1) __builtin_ia32_pause();
        __atomic_store_n(at, 2, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(at, __ATOMIC_SEQ_CST) != 3) __builtin_ia32_pause();
        return 5;
    }
    for (int round = 0; round < PAIRS; round++) {
        pid_t pair[2];
        for (int i = 0; i < 2; i++) {
            char name[32];
            snprintf(name, sizeof name, "meet%d.%d", round, i);
            int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
            CHECK(fd >= 0 && ftruncate(fd, 4096) == 0 && close(fd) == 0);
        }
        for (int i = 0; i < 2; i++) {
            pair[i] = fork();
            CHECK(pair[i] >= 0);
            if (pair[i] == 0) side(i, round);
        }
        expect_exit(pair[0], 0);
        expect_exit(pair[1], 0);
    }
    CHECK(dup2(memfd_create("memory", 0), 9) == 9 && ftruncate(9, 4096) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execv(argv[0], (char *[]){argv[0], "again", NULL});
        _exit(9);
    }
    // Mapped when the other one may be mapping it, or may have.
    int *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 9, 0);
    CHECK(at != MAP_FAILED);
    __atomic_store_n(at, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(at, __ATOMIC_SEQ_CST) != 2) __builtin_ia32_pause();
    __atomic_store_n(at, 3, __ATOMIC_SEQ_CST);
    expect_exit(child, 5);
    return ok();
}
