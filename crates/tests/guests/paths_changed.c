// relive: threads=yes timeout=90
// A thread changes a byte of a path while another one makes calls with it: the path that is looked
// at before a call is the one that the call uses, so it never leads to the recorder.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { FIRST = 1000, END = 1024, ROUNDS = 10, OPENS = 100, LINKS = 500 };

static char path[100], own[4096];
static atomic_int stop;
// The byte that changes, and the two values that it has.
static volatile char *byte;
static char values[2];

static void *changer(void *arg) {
    (void)arg;
    for (unsigned i = 0; !atomic_load_explicit(&stop, memory_order_relaxed); i++) *byte = values[i % 2];
    return NULL;
}

static pthread_t change(const char *text, size_t at, char other) {
    pthread_t thread;
    strcpy(path, text);
    // First the harmless one: a call that is refused gives no turn away.
    byte = path + at, values[0] = path[at], values[1] = other, *byte = other;
    atomic_store(&stop, 0);
    CHECK0(pthread_create(&thread, NULL, changer, NULL));
    return thread;
}

static void done(pthread_t thread) {
    atomic_store(&stop, 1);
    CHECK0(pthread_join(thread, NULL));
}

// No descriptor of the recorder's: natively none is open there.
static void descriptor(int fd) {
    char text[100], link[100];
    struct stat st;
    int digits = snprintf(text, sizeof text, "/proc/self/fd/%d", fd);
    pthread_t thread = change(text, (size_t)digits - 4, 'x');
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(access(path, F_OK) == -1 && errno == ENOENT);
        CHECK(readlink(path, link, sizeof link) == -1 && errno == ENOENT);
        CHECK(stat(path, &st) == -1 && errno == ENOENT);
        CHECK(open(path, O_PATH) == -1 && errno == ENOENT);
    }
    for (int i = 0; i < OPENS; i++) CHECK(open(path, O_PATH) == -1 && errno == ENOENT);
    done(thread);
}

// The name of this program, or none.
static void executable(ssize_t length) {
    char link[sizeof own];
    pthread_t thread = change("/proc/self/exe", strlen("/proc/self/ex"), 'x');
    for (int i = 0; i < LINKS; i++) {
        ssize_t n = readlink(path, link, sizeof link);
        CHECK(n == -1 ? errno == ENOENT : n == length && memcmp(link, own, (size_t)n) == 0);
    }
    done(thread);
}

// Paths that have no end where the kernel stops, and those that cannot be read.
static void bounds(void) {
    static char endless[3 * 4096];
    memset(endless, '/', sizeof endless - 1);
    CHECK(access(endless, F_OK) == -1 && errno == ENAMETOOLONG);
    CHECK(access(endless + sizeof endless - 4096, F_OK) == 0);
    CHECK(access(endless + sizeof endless - 4097, F_OK) == -1 && errno == ENAMETOOLONG);
    CHECK(rename(endless, "/") == -1 && errno == ENAMETOOLONG);
    CHECK(access((char *)8, F_OK) == -1 && errno == EFAULT);
    CHECK(open((char *)8, O_RDONLY) == -1 && errno == EFAULT);
    char *pages = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
    memset(pages, '/', 4096);
    CHECK(access(pages + 4094, F_OK) == -1 && errno == EFAULT);
    pages[4095] = 0;
    CHECK(access(pages + 4094, F_OK) == 0 && munmap(pages, 4096) == 0);
    CHECK(access("", F_OK) == -1 && errno == ENOENT);
}

static void *bounds_beside(void *arg) {
    bounds();
    return arg;
}

int main(void) {
    ssize_t length = readlink("/proc/self/exe", own, sizeof own);
    CHECK(length > 0);
    bounds();
    pthread_t beside;
    CHECK0(pthread_create(&beside, NULL, bounds_beside, NULL));
    CHECK0(pthread_join(beside, NULL));
    for (int fd = FIRST; fd < END; fd++) descriptor(fd);
    executable(length);
    return ok();
}
