// relive: link=pie,static threads=yes sketch=yes parallel=refused timeout=60
// A process with threads maps files shared, and is alone with them: until another one maps them too, while its threads run,
// while all of them sleep, while one of them waits for a child in its memory, and when it has shown a file at two addresses. All
// of them see each other's writes from there on.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { THREADS = 3, ROUNDS = 4000, PAGE = 4096 };
static const char *const names[] = {"runs", "sleeps", "beside", "reads", "twice", "grown", "moved"};
enum { RUNS, SLEEPS, BESIDE, READS, TWICE, GROWN, MOVED, FILES };

struct shared {
    atomic_int begun, other, word, sum;
};
static struct shared *map[FILES];
static int to[2], from[2];

static void *map_of(const char *name, int pages) {
    int fd = open(name, O_RDWR);
    void *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(fd >= 0 && at != MAP_FAILED && close(fd) == 0);
    return at;
}

// The other process: maps a file when it is told to, adds to its words, and says so.
static void other(void) {
    unsigned char file;
    while (read(to[0], &file, 1) == 1) {
        struct shared *own = map_of(names[file], 1);
        for (int i = 0; i < ROUNDS; i++) atomic_fetch_add(&own->sum, 1);
        atomic_store(&own->other, 1);
        CHECK(write(from[1], &file, 1) == 1 && munmap(own, PAGE) == 0);
    }
    _exit(5);
}

static void tell(unsigned char file) {
    CHECK(write(to[1], &file, 1) == 1);
}

static void hear(unsigned char file) {
    unsigned char heard;
    CHECK(read(from[0], &heard, 1) == 1 && heard == file);
}

// Runs until the other process has been there.
static void *runs(void *number) {
    struct shared *own = map[(long)number];
    atomic_fetch_add(&own->begun, 1);
    for (int i = 0; i < ROUNDS || !atomic_load(&own->other); i++) {
        if (i < ROUNDS) atomic_fetch_add(&own->sum, 1);
    }
    return NULL;
}

static void together(int file, void (*meanwhile)(int)) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, runs, (void *)(long)file));
    while (atomic_fetch_add(&map[file]->begun, 0) < THREADS) {
    }
    meanwhile(file);
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(atomic_load(&map[file]->sum) == (THREADS + 1) * ROUNDS);
}

static void asks(int file) {
    tell(file);
    hear(file);
}

// Reads until the other process has written.
static void *reads(void *begun) {
    atomic_fetch_add((atomic_int *)begun, 1);
    while (!atomic_load(&map[READS]->other)) {
    }
    CHECK(atomic_load(&map[READS]->sum) == ROUNDS);
    return NULL;
}

static void only_reads(void) {
    static atomic_int begun;
    pthread_t threads[THREADS];
    int fd = open(names[READS], O_RDONLY);
    map[READS] = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map[READS] != MAP_FAILED && close(fd) == 0);
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, reads, &begun));
    while (atomic_fetch_add(&begun, 0) < THREADS) {
    }
    asks(READS);
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
}

static void *sleeps(void *end) {
    char byte;
    CHECK(read(*(int *)end, &byte, 1) == 1 && atomic_load(&map[SLEEPS]->sum) == ROUNDS);
    return NULL;
}

// All threads of the process sleep while the other one maps the file.
static void asleep(void) {
    int ends[2];
    pthread_t threads[THREADS];
    CHECK(pipe(ends) == 0);
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, sleeps, &ends[0]));
    tell(SLEEPS);
    hear(SLEEPS);
    for (int i = 0; i < THREADS; i++) CHECK(write(ends[1], "", 1) == 1);
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

// A child lives in the memory of the process meanwhile.
static void has_visitor(int file) {
    tell(file);
    pid_t child = vfork();
    if (child == 0) {
        usleep(2000);
        _exit(7);
    }
    expect_exit(child, 7);
    hear(file);
}

static void nothing(int file) {
    atomic_store(&map[file]->other, 1);
    atomic_fetch_add(&map[file]->sum, ROUNDS);
}

int main(int argc, char **argv) {
    int from_file = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < FILES; i++) {
        int fd = open(names[i], O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0 && close(fd) == 0);
    }
    // Each part in a process of its own: none of them takes turns yet.
    for (int part = from_file; part < FILES; part++) {
        pid_t child = fork();
        if (child == 0) {
            CHECK(pipe(to) == 0 && pipe(from) == 0);
            pid_t second = fork();
            if (second == 0) {
                CHECK(close(to[1]) == 0);
                other();
            }
            CHECK(close(to[0]) == 0);
            if (part != READS) map[part] = map_of(names[part], 1);
            switch (part) {
            case READS: only_reads(); break;
            case RUNS: together(part, asks); break;
            case SLEEPS: asleep(); break;
            case BESIDE: together(part, has_visitor); break;
            case TWICE: {
                struct shared *again = map_of(names[part], 2);
                together(part, nothing);
                CHECK(atomic_load(&again->sum) == (THREADS + 1) * ROUNDS);
                break;
            }
            case GROWN: {
                // The second page of a file, and its first one, which grows over that.
                int fd = open(names[part], O_RDWR);
                atomic_int *behind = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE);
                map[part] = mremap(map[part], PAGE, 2 * PAGE, MREMAP_MAYMOVE);
                CHECK(behind != MAP_FAILED && map[part] != MAP_FAILED);
                together(part, nothing);
                atomic_store(behind, 3);
                CHECK(*(int *)((char *)map[part] + PAGE) == 3);
                break;
            }
            case MOVED: {
                struct shared *again = mremap(map[part], 0, PAGE, MREMAP_MAYMOVE);
                CHECK(again != MAP_FAILED);
                together(part, nothing);
                CHECK(atomic_load(&again->sum) == (THREADS + 1) * ROUNDS);
                break;
            }
            }
            CHECK(close(to[1]) == 0);
            expect_exit(second, 5);
            _exit(3);
        }
        expect_exit(child, 3);
    }
    return ok();
}
