// relive: link=pie
// What a forked child gets of memory, pages given back, maps with a second name, memory that
// grows, and the limits on memory.
#include "check.h"
#include <sys/mman.h>
#include <sys/resource.h>

static const size_t page = 4096;

static char *anonymous(size_t pages, int flags) {
    char *at = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static __attribute__((noinline)) int deep(int frames, volatile char *above) {
    volatile char frame[4096];
    frame[0] = above ? above[0] : 1;
    int below = frames == 0 ? 0 : deep(frames - 1, frame);
    return below + frame[0];
}

static int child_of(void (*what)(void)) {
    pid_t child = fork();
    if (child == 0) {
        what();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void grows(void) {
    struct rlimit limit = {32 << 20, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
    CHECK(deep(6000, NULL) == 6001);
}

static void overflows(void) {
    struct rlimit limit = {1 << 20, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
    CHECK(deep(1500, NULL) == 1501);
}

static void limited(void) {
    struct rlimit limit = {256 << 20, 256 << 20}, now;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(getrlimit(RLIMIT_AS, &now) == 0 && now.rlim_cur == limit.rlim_cur);
    CHECK(mmap(NULL, 512 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
    CHECK(malloc(512 << 20) == NULL);
    free(malloc(1 << 20));
    limit.rlim_cur = 32 << 20;
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    CHECK(sbrk(64 << 20) == (void *)-1 && errno == ENOMEM);
    CHECK(mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    CHECK(mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    execl("/bin/sh", "sh", "-c", "test $(ulimit -v) = 262144 && test $(ulimit -d) = 32768", (char *)NULL);
}

int main(void) {
    char *p = anonymous(4, MAP_PRIVATE);
    memset(p, 1, 4 * page);
    CHECK(madvise(p, page, MADV_DONTFORK) == 0 && madvise(p + page, page, MADV_WIPEONFORK) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(p[page] == 0 && p[2 * page] == 1);
        *(volatile char *)p = 1;
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    CHECK(madvise(p, page, MADV_DOFORK) == 0 && madvise(p + page, page, MADV_KEEPONFORK) == 0);
    child = fork();
    if (child == 0) _exit(p[0] == 1 && p[page] == 1 ? 2 : 1);
    expect_exit(child, 2);

    char *s = anonymous(4, MAP_SHARED);
    memset(s, 2, 4 * page);
    CHECK(madvise(s + page, page, MADV_REMOVE) == 0);
    CHECK(s[0] == 2 && s[page] == 0 && s[2 * page] == 2);
    CHECK(madvise(p, page, MADV_REMOVE) == -1 && errno == EINVAL);
    CHECK(madvise(s, page, MADV_WIPEONFORK) == -1 && errno == EINVAL);

    char *twin = mremap(s, 0, 2 * page, MREMAP_MAYMOVE);
    CHECK(twin != MAP_FAILED && twin != s);
    twin[0] = 10;
    CHECK(s[0] == 10 && twin[page] == 0);
    CHECK(mremap(p, 0, page, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL);
    char *moved = mremap(p, 4 * page, 4 * page, MREMAP_MAYMOVE | 4 /* MREMAP_DONTUNMAP */, NULL);
    CHECK(moved != MAP_FAILED && moved[0] == 1 && p[0] == 0);

    char *area = mmap(NULL, 64 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED && munmap(area, 64 * page) == 0);
    char *low = mmap(area + 63 * page, page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    CHECK(low == area + 63 * page);
    low[-1] = 3;
    low[-20 * (long)page] = 4;
    CHECK(low[-1] == 3 && low[-20 * (long)page] == 4 && low[-10 * (long)page] == 0);

    CHECK(child_of(grows) == 0 && child_of(limited) == 0);
    status = child_of(overflows);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    CHECK(mlockall(0) == -1 && errno == EINVAL);
    return ok();
}
