// relive: link=pie index=no
// Code in shared memory that is written under another address, which may be mapped or made writable
// after the code has run, as just-in-time compilers do that never have both at once. One of them has no
// file: a replay of one process by itself has that memory for itself, and gives it no second address.
#include "check.h"
#include <setjmp.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

enum { PAGE = 4096, LEN = 2 * PAGE };

static const int writes = PROT_READ | PROT_WRITE, runs = PROT_READ | PROT_EXEC;
static int file, number;

static unsigned char *map(int prot) {
    unsigned char *at = mmap(NULL, LEN, prot, MAP_SHARED, file, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

// Writes a function under one name and calls it under the other.
static void renew(unsigned char *written, unsigned char *run) {
    unsigned char load[] = {0xb8, 0, 0, 0, 0, 0xc3}; // mov $number, %eax; ret
    for (int at = 0; at < LEN; at += PAGE) {
        number++;
        memcpy(load + 1, &number, 4);
        memcpy(written + at, load, sizeof load);
        CHECK(((int (*)(void))(run + at))() == number);
    }
}

static void both(unsigned char *written, unsigned char *run) {
    for (int i = 0; i < 3; i++) renew(written, run);
}

static sigjmp_buf out;

static void bus(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    siglongjmp(out, number);
}

// The file ends before its code, and gets longer again.
static void cut(unsigned char *written, unsigned char *run) {
    handle(SIGBUS, bus, 0);
    for (int i = 0; i < 3; i++) {
        both(written, run);
        CHECK(ftruncate(file, 0) == 0);
        if (sigsetjmp(out, 1) == 0) {
            *(volatile unsigned char *)written = 1;
            CHECK(0);
        }
        CHECK(ftruncate(file, LEN) == 0 && written[0] == 0);
        both(written, run);
    }
}

int main(void) {
    file = memfd_create("code", 0);
    CHECK(file >= 0 && ftruncate(file, LEN) == 0);
    unsigned char *code = map(runs), *first = map(writes);
    both(first, code);

    unsigned char *late = map(writes);
    both(late, code);
    both(first, code);

    unsigned char *opened = map(PROT_READ);
    both(first, code);
    CHECK(mprotect(opened, LEN, writes) == 0);
    both(opened, code);
    // It is writable already.
    CHECK(mprotect(opened, LEN, writes) == 0);
    both(opened, code);

    unsigned char *other = mremap(opened, 0, LEN, MREMAP_MAYMOVE);
    CHECK(other != MAP_FAILED);
    both(other, code);
    both(opened, code);

    unsigned char *room = map(PROT_NONE);
    CHECK(mremap(other, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, room) == room);
    both(room, code);

    // A page that is executable under two names is written under either.
    unsigned char *twice = map(writes | PROT_EXEC);
    both(twice, code);
    both(twice, twice);
    both(first, twice);
    CHECK(madvise(first, LEN, MADV_REMOVE) == 0);
    CHECK(code[0] == 0 && twice[PAGE] == 0);
    both(first, code);
    CHECK(madvise(twice, LEN, MADV_DONTNEED) == 0);
    both(twice, code);

    // Through the descriptor.
    unsigned char load[] = {0xb8, 0, 0, 0, 0, 0xc3};
    for (int i = 0; i < 3; i++) {
        number++;
        memcpy(load + 1, &number, 4);
        CHECK(pwrite(file, load, sizeof load, 0) == sizeof load);
        CHECK(((int (*)(void))code)() == number);
    }

    cut(first, code);

    // Memory without a file.
    unsigned char *unnamed = mmap(NULL, LEN, writes | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(unnamed != MAP_FAILED);
    both(unnamed, unnamed);
    unsigned char *second = mremap(unnamed, 0, LEN, MREMAP_MAYMOVE);
    CHECK(second != MAP_FAILED);
    both(second, unnamed);
    both(unnamed, second);
    both(second, unnamed);
    CHECK(mprotect(second, LEN, PROT_READ) == 0);
    both(unnamed, unnamed);
    CHECK(mprotect(second, LEN, writes) == 0);
    both(second, unnamed);

    // A segment.
    int id = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0700);
    CHECK(id >= 0);
    unsigned char *segment = shmat(id, NULL, SHM_EXEC);
    CHECK(segment != (void *)-1);
    unsigned char *attached = shmat(id, NULL, 0);
    CHECK(attached != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
    both(attached, segment);
    both(segment, segment);
    both(attached, segment);
    unsigned char *third = shmat(id, NULL, 0);
    CHECK(third != (void *)-1);
    both(third, segment);
    return ok();
}
