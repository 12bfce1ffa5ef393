// relive: threads=yes output=free args=1 timeout=60 coherence=no
// A random program, determined by its argument but for the effects of threads, signals, clocks and
// the kernel: threads that come and go, races, locks, signals to any process, timers, faults
// that are mended, pages and code that change, children of all kinds, shared memory, files and
// pipes. The values that each thread and process has seen go into a hash that it prints: any
// difference of a replay shows. Nothing here waits without an end of its own.
#include "check.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <x86intrin.h>

enum { THREADS = 5, WORDS = 64, PAGE = 4096, ROUNDS = 40, LIVES = 12 };

struct shared {
    volatile uint64_t words[WORDS]; // raced on, by threads and by children
    pthread_mutex_t mutex;          // of all processes, and robust
    sem_t sem;
    volatile int futex;
};

static struct shared *s;
static volatile uint64_t words[WORDS]; // raced on by threads
static pthread_mutex_t mutexes[3];
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_t threads[THREADS];
static volatile int alive[THREADS];
static int pipes[2], sockets[2], event, file;
static char *self;
static char *code[2];          // pages that are written and executed
static char *fragile;          // a page whose protection comes and goes
static volatile int births;

struct me {
    uint64_t random, hash;
    volatile uint64_t signals;
    sigjmp_buf back;
    volatile sig_atomic_t may_jump;
    int depth; // generations of processes
};
static __thread struct me *me;

// Handlers run until the very end, `me` lives in the frame of a function that returns.
static void leave(void) { me = NULL; }

static uint64_t next(void) {
    uint64_t x = me->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    me->random = x;
    return x * 0x2545f4914f6cdd1d;
}

static uint64_t below(uint64_t n) { return next() % n; }

static void seen(uint64_t value) { me->hash = (me->hash ^ value) * 0x100000001b3 + 1; }

static void seen_bytes(const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) seen(((const unsigned char *)bytes)[i]);
}

static void noticed(int number, siginfo_t *info, void *context) {
    int saved = errno;
    (void)context;
    if (me) {
        me->signals = me->signals * 31 + number + (info->si_code == SI_QUEUE ? info->si_value.sival_int : 0);
        words[number]++;
        if (number == SIGUSR2 && me->may_jump) {
            me->may_jump = 0;
            siglongjmp(me->back, 1);
        }
    }
    errno = saved;
}

static void mended(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    char *page = (char *)((uintptr_t)info->si_addr & -(uintptr_t)PAGE);
    if (page != fragile) _exit(98);
    mprotect(fragile, PAGE, PROT_READ | PROT_WRITE);
    if (me) me->signals += 7;
}

static void calculate(void) {
    unsigned n = below(200);
    double d = (double)(next() >> 40);
    volatile float f[8];
    uint64_t x = next();
    for (unsigned i = 0; i < n; i++) {
        d = d * 1.0000001 + 3.5;
        f[i & 7] = (float)d / (float)(i + 1);
        x = (x << 7 | x >> 57) + i * 0x9e3779b97f4a7c15;
        if (x & 4) x ^= (uint64_t)f[i & 7];
    }
    seen(x);
    seen((uint64_t)d);
}

static void race(void) {
    unsigned n = below(300), at = below(WORDS);
    for (unsigned i = 0; i < n; i++) {
        uint64_t old = words[at];
        words[(at + i) % 4] = old + i;
        words[at] = old + 1;
    }
    seen(words[at]);
}

static void race_shared(void) {
    unsigned n = below(100), at = below(WORDS);
    for (unsigned i = 0; i < n; i++) s->words[at] = s->words[at] + s->words[(at + 1) % WORDS] % 3 + 1;
    seen(s->words[at]);
}

static void atomics(void) {
    unsigned at = below(WORDS);
    for (unsigned n = below(50); n; n--) {
        seen(__atomic_fetch_add(&words[at], n, __ATOMIC_SEQ_CST));
        uint64_t old = words[0];
        seen(__sync_val_compare_and_swap(&words[0], old, old + 1));
    }
}

static void lock(void) {
    int i = below(3);
    CHECK0(pthread_mutex_lock(&mutexes[i]));
    uint64_t old = words[10 + i];
    if (below(3) == 0) sched_yield();
    if (below(8) == 0) calculate();
    words[10 + i] = old + 1;
    CHECK0(pthread_mutex_unlock(&mutexes[i]));
    seen(old);
}

static void lock_shared(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    int got = pthread_mutex_timedlock(&s->mutex, &until);
    if (got == EOWNERDEAD) CHECK0(pthread_mutex_consistent(&s->mutex));
    else CHECK0(got);
    uint64_t old = s->words[1];
    if (below(4) == 0) calculate();
    s->words[1] = old + 1;
    CHECK0(pthread_mutex_unlock(&s->mutex));
    seen(old);
    seen(got);
}

static void wait_condition(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += below(400000);
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    CHECK0(pthread_mutex_lock(&mutexes[0]));
    seen(pthread_cond_timedwait(&cond, &mutexes[0], &until));
    CHECK0(pthread_mutex_unlock(&mutexes[0]));
}

static void wake_condition(void) {
    below(2) ? pthread_cond_signal(&cond) : pthread_cond_broadcast(&cond);
}

static void read_write_lock(void) {
    if (below(3)) {
        CHECK0(pthread_rwlock_rdlock(&rwlock));
    } else {
        CHECK0(pthread_rwlock_wrlock(&rwlock));
        words[20]++;
    }
    seen(words[20]);
    CHECK0(pthread_rwlock_unlock(&rwlock));
}

static void semaphore(void) {
    if (below(2)) seen(sem_post(&s->sem));
    else seen(sem_trywait(&s->sem));
}

static void raw_futex(void) {
    struct timespec limit = {0, (long)below(200000)};
    int value = s->futex;
    if (below(2)) {
        seen(syscall(SYS_futex, &s->futex, FUTEX_WAIT, value, &limit, NULL, 0));
        seen(errno);
    } else {
        s->futex = value + 1;
        seen(syscall(SYS_futex, &s->futex, FUTEX_WAKE, 2, NULL, NULL, 0));
    }
}

static void clocks(void) {
    struct timespec t;
    struct timeval v;
    for (unsigned n = below(20); n; n--) {
        clock_gettime(below(2) ? CLOCK_MONOTONIC : CLOCK_REALTIME, &t);
        seen(t.tv_nsec);
        if (below(2)) seen(__rdtsc());
        if (below(4) == 0) gettimeofday(&v, NULL), seen(v.tv_usec);
        if (below(16) == 0) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), seen(t.tv_nsec);
    }
    seen(time(NULL));
}

static void nap(void) {
    struct timespec t = {0, (long)below(300000)};
    seen(nanosleep(&t, &t));
    seen(t.tv_nsec);
}

static void give_way(void) {
    switch (below(3)) {
    case 0: sched_yield(); break;
    case 1: for (unsigned n = below(2000); n; n--) _mm_pause(); break;
    default: for (volatile unsigned n = below(5000); n; n--) {}
    }
}

static void through_pipe(void) {
    char bytes[256];
    size_t n = 1 + below(sizeof bytes);
    int at = below(2), *ends = below(2) ? pipes : sockets;
    if (ends == pipes ? at == 1 : below(2)) {
        memset(bytes, (int)n, n);
        seen(write(ends[at], bytes, n));
    } else {
        ssize_t got = read(ends[at], bytes, n);
        seen(got);
        if (got > 0) seen_bytes(bytes, got);
    }
}

static void counters(void) {
    uint64_t value = 1 + below(5);
    if (below(2)) seen(write(event, &value, 8));
    else if (read(event, &value, 8) == 8) seen(value);
}

static void wait_for_input(void) {
    struct pollfd fds[3] = {{pipes[0], POLLIN, 0}, {sockets[below(2)], POLLIN | POLLOUT, 0}, {event, POLLIN, 0}};
    struct timespec limit = {0, (long)below(200000)};
    seen(ppoll(fds, 1 + below(3), &limit, NULL));
    seen(fds[0].revents);
}

static void wait_by_epoll(void) {
    int e = epoll_create1(EPOLL_CLOEXEC);
    if (e < 0) return;
    struct epoll_event wanted = {EPOLLIN, {.u64 = 5}}, got[2];
    seen(epoll_ctl(e, EPOLL_CTL_ADD, event, &wanted));
    seen(epoll_wait(e, got, 2, (int)below(2)));
    close(e);
}

static void use_file(void) {
    char bytes[3000];
    off_t at = below(20000);
    size_t n = 1 + below(sizeof bytes);
    switch (below(5)) {
    case 0: memset(bytes, (int)at, n); seen(pwrite(file, bytes, n, at)); break;
    case 1: {
        struct iovec parts[2] = {{bytes, n / 2}, {bytes + n / 2, n - n / 2}};
        ssize_t got = preadv(file, parts, 2, at);
        seen(got);
        if (got > 0) seen_bytes(bytes, got);
        break;
    }
    case 2: seen(lseek(file, at, SEEK_SET)); break;
    case 3: {
        ssize_t got = read(file, bytes, n); // the offset is shared
        seen(got);
        if (got > 0) seen_bytes(bytes, got);
        break;
    }
    default: {
        int copy = dup(file);
        seen(copy >= 0);
        if (copy >= 0) close(copy);
    }
    }
}

static void map_memory(void) {
    size_t pages = 1 + below(8), at = below(pages);
    char *m = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(m != MAP_FAILED);
    m[at * PAGE] = (char)pages;
    if (below(2)) seen(madvise(m, pages * PAGE, MADV_DONTNEED));
    seen(m[at * PAGE]);
    if (below(2)) {
        char *moved = mremap(m, pages * PAGE, (pages + 3) * PAGE, MREMAP_MAYMOVE);
        CHECK(moved != MAP_FAILED);
        seen(moved[at * PAGE]);
        m = moved, pages += 3;
    }
    if (below(2)) mprotect(m, PAGE, PROT_NONE);
    CHECK(munmap(m, pages * PAGE) == 0);
}

static void map_file(void) {
    char *m = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(m != MAP_FAILED);
    seen_bytes(m + below(3 * PAGE), 100);
    m[below(4 * PAGE)]++;
    munmap(m, 4 * PAGE);
}

static void allocate(void) {
    void *all[16];
    size_t sizes[16];
    for (int i = 0; i < 16; i++) {
        all[i] = malloc(sizes[i] = 1 + below(below(8) ? 500 : 200000));
        CHECK(all[i]);
        memset(all[i], i, sizes[i]);
    }
    for (int i = 0; i < 16; i++) {
        seen(((char *)all[i])[sizes[i] - 1]);
        free(all[i]);
    }
}

static void fault(void) {
    if (below(2)) mprotect(fragile, PAGE, below(2) ? PROT_NONE : PROT_READ);
    volatile char *at = fragile + below(PAGE);
    (*at)++;
    seen(*at);
}

// A page with a function that returns a number: written, executed, by several at once.
static void run_code(void) {
    char *page = code[below(2)];
    uint32_t value = below(100);
    if (below(2)) {
        CHECK0(pthread_mutex_lock(&mutexes[2]));
        memcpy(page + 1, &value, 1);
        CHECK0(pthread_mutex_unlock(&mutexes[2]));
    }
    int (*f)(void) = (int (*)(void))page;
    for (unsigned n = below(20); n; n--) seen(f());
}

static void write_code(void) {
    static const unsigned char body[] = {0xb8, 1, 0, 0, 0, 0x83, 0xc0, 1, 0xff, 0xc0, 0xc3};
    char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (unsigned n = 1 + below(4); n; n--) {
        memcpy(page, body, sizeof body);
        page[1] = (char)below(100);
        seen(((int (*)(void))page)());
    }
    munmap(page, PAGE);
}

static void strings(void) {
    char a[600], b[600];
    size_t n = below(500), off = below(64);
    memset(a, (int)n, sizeof a);
    memcpy(b, a + off, n);
    memmove(b + 10, b + below(50), n);
    __asm__ volatile("rep movsb" : : "D"(b + 5), "S"(a), "c"(n) : "memory");
    snprintf(a, sizeof a, "%zu %f %llx", n, (double)off / 3, (unsigned long long)next());
    seen_bytes(a, strlen(a));
    seen_bytes(b, n);
}

static void chance(void) {
    uint64_t value = 0;
    seen(getrandom(&value, sizeof value, 0));
    seen(value);
    seen(getpid());
    seen(syscall(SYS_gettid));
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    seen(usage.ru_utime.tv_usec);
}

static void signal_somebody(void) {
    const int all[] = {SIGUSR1, SIGUSR2, SIGRTMIN, SIGCONT, SIGWINCH};
    int number = below(4) == 0 ? SIGRTMIN + 1 : all[below(5)], who = below(THREADS);
    switch (below(4)) {
    case 0: seen(raise(number)); break;
    case 1: seen(kill(getpid(), number)); break;
    case 2: seen(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = number})); break;
    default:
        // Held while threads come and go.
        CHECK0(pthread_mutex_lock(&mutexes[1]));
        if (alive[who] && me->depth == 0) seen(pthread_kill(threads[who], number));
        CHECK0(pthread_mutex_unlock(&mutexes[1]));
    }
}

static void masks(void) {
    sigset_t some, old, pending;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    if (below(2)) sigaddset(&some, SIGUSR2);
    if (below(2)) sigaddset(&some, SIGALRM);
    CHECK0(pthread_sigmask(SIG_BLOCK, &some, &old));
    if (below(2)) raise(SIGUSR1);
    calculate();
    sigpending(&pending);
    seen(sigismember(&pending, SIGUSR1));
    if (below(3) == 0) {
        struct timespec limit = {0, (long)below(100000)};
        seen(sigtimedwait(&some, NULL, &limit));
    }
    CHECK0(pthread_sigmask(SIG_SETMASK, &old, NULL));
}

static void jump_out(void) {
    if (sigsetjmp(me->back, 1) == 0) {
        me->may_jump = 1;
        if (below(2)) raise(SIGUSR2);
        for (volatile unsigned n = below(3000); n; n--) {}
    }
    me->may_jump = 0;
}

static void timer(void) {
    struct itimerval t = {{0, 0}, {0, 1 + (long)below(2000)}};
    seen(setitimer(below(2) ? ITIMER_REAL : ITIMER_VIRTUAL, &t, NULL));
}

static void descend(int depth) {
    volatile char frame[200];
    frame[depth] = (char)depth;
    if (depth) descend(depth - 1);
    seen(frame[depth]);
}

static void recurse(void) { descend((int)below(60)); }

static void act(void);

// A child that acts, with one thread, and ends in one way or another.
static void fork_child(void) {
    if (me->depth >= 2 || __atomic_add_fetch(&births, 1, __ATOMIC_RELAXED) > LIVES) return;
    // No lock may be held by a thread that the child does not have.
    for (int i = 0; i < 3; i++) CHECK0(pthread_mutex_lock(&mutexes[i]));
    pid_t child = fork();
    for (int i = 0; i < 3; i++) CHECK0(pthread_mutex_unlock(&mutexes[i]));
    CHECK(child >= 0);
    if (child == 0) {
        CHECK0(pthread_rwlock_init(&rwlock, NULL));
        CHECK0(pthread_cond_init(&cond, NULL));
        me->depth++;
        me->random ^= 0x1234567;
        for (unsigned n = below(15); n; n--) act();
        dprintf(1, "child %016llx\n", (unsigned long long)me->hash);
        switch (below(4)) {
        case 0: pthread_mutex_lock(&s->mutex); _exit(3);
        case 1: kill(getpid(), SIGKILL); _exit(4);
        case 2: signal(SIGTERM, SIG_DFL); raise(SIGTERM); _exit(5);
        default: _exit((int)(me->hash & 63));
        }
    }
    if (below(4) == 0) seen(kill(child, SIGKILL));
    int status;
    pid_t got;
    while ((got = waitpid(child, &status, 0)) < 0 && errno == EINTR) seen(1);
    CHECK(got == child);
    seen(status);
}

static void spawn_child(void) {
    if (me->depth >= 1 || __atomic_add_fetch(&births, 1, __ATOMIC_RELAXED) > LIVES) return;
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)below(1000000));
    char *argv[] = {self, "child", number, NULL}, *env[] = {NULL};
    pid_t child;
    int failed = posix_spawn(&child, below(8) ? self : "/nowhere", NULL, NULL, argv, env);
    seen(failed);
    if (failed) return;
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) seen(1);
    seen(status);
}

static void *short_life(void *seed) {
    struct me mine = {.random = (uintptr_t)seed | 1, .depth = 3};
    me = &mine;
    for (unsigned n = below(8); n; n--) act();
    leave();
    return (void *)mine.hash;
}

static void short_thread(void) {
    if (me->depth) return;
    pthread_t t;
    void *hash;
    CHECK0(pthread_create(&t, NULL, short_life, (void *)next()));
    calculate();
    CHECK0(pthread_join(t, &hash));
    seen((uintptr_t)hash);
}

static void say(void) { dprintf(1, "%016llx\n", (unsigned long long)me->hash); }

static void (*const acts[])(void) = {
    calculate, calculate, race, race, race_shared, race_shared, atomics, lock, lock, lock_shared,
    wait_condition, wake_condition, read_write_lock, semaphore, raw_futex, clocks, clocks, nap,
    give_way, give_way, through_pipe, through_pipe, counters, wait_for_input, wait_by_epoll,
    use_file, use_file, map_memory, map_file, allocate, fault, run_code, write_code, strings,
    chance, signal_somebody, signal_somebody, signal_somebody, masks, jump_out, timer, recurse,
    fork_child, spawn_child, short_thread, say,
};

static void act(void) {
    acts[below(sizeof acts / sizeof *acts)]();
    seen(me->signals);
}

static void *life(void *number) {
    struct me mine = {.random = 0};
    uint64_t seed = words[40 + (uintptr_t)number];
    mine.random = seed | 1;
    me = &mine;
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    CHECK(sigaltstack(&stack, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) act();
    CHECK0(pthread_mutex_lock(&mutexes[1]));
    alive[(uintptr_t)number] = 0;
    CHECK0(pthread_mutex_unlock(&mutexes[1]));
    dprintf(1, "thread %d %016llx %llx\n", (int)(uintptr_t)number, (unsigned long long)mine.hash,
            (unsigned long long)mine.signals);
    stack.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&stack, NULL) == 0);
    sigset_t all;
    sigfillset(&all);
    CHECK0(pthread_sigmask(SIG_SETMASK, &all, NULL));
    leave();
    return NULL;
}

static void prepare(void) {
    s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fragile = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED && fragile != MAP_FAILED);
    for (int i = 0; i < 2; i++) {
        code[i] = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(code[i] != MAP_FAILED);
        memcpy(code[i], "\xb8\x07\0\0\0\xc3", 6);
    }
    pthread_mutexattr_t a;
    CHECK0(pthread_mutexattr_init(&a));
    CHECK0(pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED));
    CHECK0(pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST));
    CHECK0(pthread_mutex_init(&s->mutex, &a));
    for (int i = 0; i < 3; i++) CHECK0(pthread_mutex_init(&mutexes[i], NULL));
    CHECK(sem_init(&s->sem, 1, 3) == 0);
    CHECK(pipe2(pipes, O_NONBLOCK) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) == 0);
    CHECK((event = eventfd(2, EFD_NONBLOCK)) >= 0);
    char name[] = "torture-XXXXXX";
    CHECK((file = mkstemp(name)) >= 0);
    unlink(name);
    CHECK(ftruncate(file, 5 * PAGE) == 0);
    // Faults run where they are; the others on the thread's other stack, some with restart.
    handle(SIGSEGV, mended, SA_NODEFER);
    for (int n = 1; n < SIGRTMIN + 2; n++) {
        switch (n) {
        case SIGUSR1: case SIGCONT: handle(n, noticed, SA_RESTART | SA_ONSTACK); break;
        case SIGUSR2: handle(n, noticed, SA_RESTART); break;
        case SIGALRM: case SIGVTALRM: case SIGWINCH: handle(n, noticed, SA_ONSTACK); break;
        default: if (n >= SIGRTMIN) handle(n, noticed, SA_RESTART);
        }
    }
    // Writing to a pipe is no end.
    signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv) {
    self = "/proc/self/exe";
    uint64_t seed = strtoull(argc > 2 ? argv[2] : argc > 1 ? argv[1] : "1", NULL, 10);
    struct me mine = {.random = seed * 0x9e3779b97f4a7c15 + 88172645463325252u};
    me = &mine;
    prepare();
    if (argc > 2) {
        mine.depth = 1;
        for (unsigned n = below(20); n; n--) act();
        dprintf(1, "program %016llx\n", (unsigned long long)mine.hash);
        leave();
        return (int)(mine.hash & 31);
    }
    for (int i = 0; i < THREADS; i++) words[40 + i] = next();
    CHECK0(pthread_mutex_lock(&mutexes[1]));
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK0(pthread_create(&threads[i], NULL, life, (void *)i));
        alive[i] = 1;
    }
    CHECK0(pthread_mutex_unlock(&mutexes[1]));
    for (int i = 0; i < ROUNDS / 2; i++) act();
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    dprintf(1, "main %016llx %llx\n", (unsigned long long)mine.hash, (unsigned long long)mine.signals);
    uint64_t sum = 0;
    for (int i = 0; i < WORDS; i++) sum = sum * 31 + words[i] + s->words[i];
    dprintf(1, "words %016llx\n", (unsigned long long)sum);
    leave();
    return ok();
}
