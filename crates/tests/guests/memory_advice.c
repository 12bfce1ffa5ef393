// relive:
// Locked memory, advice about it and about ranges with holes, protection of stacks that grow, and
// other corners of the memory calls: their results, and their effects when they fail.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { PAGE = 4096 };
#define FAILS(wanted, call) CHECK((call) == -1 && errno == (wanted))
#define NO_MAP(wanted, call) CHECK((call) == MAP_FAILED && errno == (wanted))

static char *anonymous(int pages, int prot, int flags) {
    char *at = mmap(NULL, pages * PAGE, prot, MAP_ANONYMOUS | flags, -1, 0);
    CHECK(at != MAP_FAILED);
    if (prot & PROT_WRITE) memset(at, 'x', pages * PAGE);
    return at;
}

static char *with_hole(void) {
    char *at = anonymous(4, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    CHECK(munmap(at + PAGE, PAGE) == 0);
    return at;
}

static void holes_and_bounds(void) {
    static const int harmless[] = {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DODUMP};
    char *at = with_hole();
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        FAILS(ENOMEM, madvise(at, 4 * PAGE, harmless[i]));
        FAILS(EINVAL, madvise(at + 1, PAGE, harmless[i]));
        FAILS(EINVAL, madvise(at, -1, harmless[i]));
        FAILS(EINVAL, madvise(at, -2 * PAGE, harmless[i]));
        CHECK(madvise(at, 0, harmless[i]) == 0 && madvise(at + 2 * PAGE, 1, harmless[i]) == 0);
    }
    FAILS(EINVAL, madvise(at, 0, 5));
    FAILS(EINVAL, madvise(at, PAGE, 12345));
    // The rest is done all the same.
    FAILS(ENOMEM, madvise(at, 4 * PAGE, MADV_DONTNEED));
    CHECK(at[0] == 0 && at[2 * PAGE] == 0 && at[4 * PAGE - 1] == 0);
    FAILS(ENOMEM, mlock(at, 4 * PAGE));
    FAILS(EINVAL, madvise(at, PAGE, MADV_DONTNEED));
    FAILS(ENOMEM, munlock(at, 4 * PAGE));
    CHECK(madvise(at, PAGE, MADV_DONTNEED) == 0);
    FAILS(ENOMEM, mprotect(at, 4 * PAGE, PROT_READ | PROT_WRITE));
    FAILS(ENOMEM, msync(at, 4 * PAGE, MS_SYNC));
    CHECK(mprotect(at, 0, 0x10) == 0);
    FAILS(EINVAL, mprotect(at, PAGE, 0x10));
    // A range that shrinks is not looked at as a whole.
    CHECK(mremap(at, 4 * PAGE, 3 * PAGE, 0) == at);
    FAILS(ENOMEM, msync(at + 3 * PAGE, PAGE, MS_SYNC));
    CHECK(at[2 * PAGE] == 0);
    NO_MAP(EFAULT, mremap(at + PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
    NO_MAP(EINVAL, mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS | MAP_SHARED_VALIDATE, -1, 0));
}

static void of_several_kinds(void) {
    char *shared = anonymous(1, PROT_READ | PROT_WRITE, MAP_SHARED);
    char *readable = anonymous(1, PROT_READ, MAP_SHARED);
    char *private = anonymous(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && ftruncate(file, PAGE) == 0 && unlink("file") == 0);
    char *copy = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(copy != MAP_FAILED && close(file) == 0);
    FAILS(EINVAL, madvise(shared, PAGE, MADV_FREE));
    FAILS(EINVAL, madvise(copy, PAGE, MADV_FREE));
    CHECK(madvise(private, PAGE, MADV_FREE) == 0);
    FAILS(EINVAL, madvise(shared, PAGE, MADV_WIPEONFORK));
    FAILS(EINVAL, madvise(copy, PAGE, MADV_WIPEONFORK));
    FAILS(EINVAL, madvise(private, PAGE, MADV_REMOVE));
    FAILS(EACCES, madvise(copy, PAGE, MADV_REMOVE));
    CHECK(madvise(readable, PAGE, MADV_REMOVE) == 0);
    CHECK(madvise(shared, PAGE, MADV_REMOVE) == 0 && shared[0] == 0);
    private[0] = 'y';
    CHECK(madvise(private, PAGE, MADV_WIPEONFORK) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(private[0] != 0);
    expect_exit(child, 0);
    CHECK(private[0] == 'y' && madvise(private, PAGE, MADV_KEEPONFORK) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(private[0] != 'y');
    expect_exit(child, 0);
}

static void locked(void) {
    char *at = anonymous(3, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    CHECK(mlock(at + PAGE + 1, 1) == 0);
    // Region by region: the first is done, the second refuses, the third is not reached.
    FAILS(EINVAL, madvise(at, 3 * PAGE, MADV_DONTNEED));
    CHECK(at[0] == 0 && at[PAGE] == 'x' && at[2 * PAGE] == 'x');
    FAILS(EINVAL, madvise(at + PAGE, PAGE, MADV_FREE));
    FAILS(EBUSY, msync(at, 3 * PAGE, MS_INVALIDATE));
    // A child has no locks.
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(madvise(at, 3 * PAGE, MADV_DONTNEED) != 0 || at[PAGE] != 0);
    expect_exit(child, 0);
    CHECK(at[PAGE] == 'x');
    char *moved = mremap(at + PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED);
    FAILS(EINVAL, madvise(moved, PAGE, MADV_DONTNEED));
    CHECK(munlock(moved, 2 * PAGE) == 0 && madvise(moved, PAGE, MADV_DONTNEED) == 0 && moved[0] == 0);
    if (madvise(at, 0, 24 /* MADV_DONTNEED_LOCKED */) == 0) {
        CHECK(mlock(at, PAGE) == 0);
        at[0] = 'z';
        CHECK(madvise(at, PAGE, 24) == 0 && at[0] == 0);
    }
    FAILS(EINVAL, mlock2(at, PAGE, 2));
    CHECK(mlock2(at, PAGE, MLOCK_ONFAULT) == 0);
    FAILS(EINVAL, madvise(at, PAGE, MADV_DONTNEED));
    char *none = anonymous(1, PROT_NONE, MAP_PRIVATE);
    FAILS(ENOMEM, mlock(none, PAGE));
    CHECK(munlock(none, PAGE) == 0 && munlockall() == 0 && madvise(at, PAGE, MADV_DONTNEED) == 0);
    char *born = anonymous(1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_LOCKED);
    FAILS(EINVAL, madvise(born, PAGE, MADV_DONTNEED));
}

static void limits(void) {
    struct rlimit old, small;
    CHECK(getrlimit(RLIMIT_MEMLOCK, &old) == 0);
    small = old;
    small.rlim_cur = 2 * PAGE;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &small) == 0 && munlockall() == 0);
    char *at = anonymous(10, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    int privileged = mlock(at, 10 * PAGE) == 0;
    CHECK(privileged || errno == ENOMEM);
    CHECK(madvise(at, PAGE, MADV_DONTNEED) == (privileged ? -1 : 0));
    CHECK(mlockall(MCL_CURRENT) == (privileged ? 0 : -1) && (privileged || errno == ENOMEM));
    char *more = mmap(NULL, 10 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
    CHECK((more != MAP_FAILED) == privileged && (privileged || errno == EAGAIN));
    CHECK(munlockall() == 0);
    small.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &small) == 0);
    CHECK(mlock(at, PAGE) == (privileged ? 0 : -1) && (privileged || errno == EPERM));
    CHECK(mlockall(MCL_FUTURE) == (privileged ? 0 : -1) && (privileged || errno == EPERM));
    at = anonymous(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    CHECK(madvise(at, PAGE, MADV_DONTNEED) == (privileged ? -1 : 0));
    FAILS(EINVAL, mlockall(0));
    FAILS(EINVAL, mlockall(8));
    CHECK(munlockall() == 0 && setrlimit(RLIMIT_MEMLOCK, &old) == 0);
}

static void growing(void) {
    int local = 0;
    char *stack = (char *)((uintptr_t)&local & -PAGE), *at = anonymous(2, PROT_READ, MAP_PRIVATE);
    CHECK(mprotect(stack, PAGE, PROT_READ | PROT_WRITE | PROT_GROWSDOWN) == 0);
    FAILS(EINVAL, mprotect(stack, PAGE, PROT_READ | PROT_WRITE | PROT_GROWSUP));
    FAILS(EINVAL, mprotect(at, PAGE, PROT_READ | PROT_GROWSDOWN));
    FAILS(EINVAL, mprotect(at, PAGE, PROT_READ | PROT_GROWSUP));
    FAILS(EINVAL, mprotect(at, PAGE, PROT_READ | PROT_GROWSUP | PROT_GROWSDOWN));
    CHECK(munmap(at, 2 * PAGE) == 0);
    at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
    CHECK(at != MAP_FAILED);
    CHECK(mprotect(at + 2 * PAGE, PAGE, PROT_READ | PROT_GROWSDOWN) == 0);
    // From its beginning on.
    int null = open("/dev/zero", O_RDONLY);
    FAILS(EFAULT, read(null, at, 1));
    FAILS(EFAULT, read(null, at + 2 * PAGE, 1));
    CHECK(read(null, at + 3 * PAGE, 1) == 1 && close(null) == 0);
}

int main(void) {
    holes_and_bounds();
    of_several_kinds();
    locked();
    limits();
    growing();
    return ok();
}
