// Correct: two threads count under a lock for which they spin, beside a file that is mapped shared.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_int lock;
static int counted;

static void *count(void *unused) {
    (void)unused;
    for (int i = 0; i < 3; i++) {
        while (atomic_exchange(&lock, 1)) {
        }
        counted++;
        atomic_store(&lock, 0);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    (void)argc;
    if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, open(argv[0], O_RDONLY), 0) == MAP_FAILED) return 2;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return counted != 6;
}
