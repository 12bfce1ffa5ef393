// relive: threads=yes sketch=yes parallel=refused
// Named semaphores and POSIX shared memory, opened by processes that were forked before either
// existed: the processes meet through the names alone.
#include "check.h"
#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>

enum { ITEMS = 60, ROOM = 4 };

struct queue {
    int in, out;
    int items[ROOM];
};

static char name_free[64], name_full[64], name_queue[64];

static void names(int id) {
    snprintf(name_free, sizeof name_free, "/relive-test-free-%d", id);
    snprintf(name_full, sizeof name_full, "/relive-test-full-%d", id);
    snprintf(name_queue, sizeof name_queue, "/relive-test-queue-%d", id);
}

static struct queue *open_queue(int flags) {
    int fd = shm_open(name_queue, O_RDWR | flags, 0600);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct queue)) == 0);
    struct queue *q = mmap(NULL, sizeof *q, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(q != MAP_FAILED && close(fd) == 0);
    return q;
}

int main(void) {
    int start[2];
    char byte;
    CHECK(pipe(start) == 0);
    names((int)getpid());
    pid_t consumer = fork();
    CHECK(consumer >= 0);
    if (consumer == 0) {
        CHECK(read(start[0], &byte, 1) == 1);
        struct queue *q = open_queue(0);
        sem_t *free = sem_open(name_free, 0), *full = sem_open(name_full, 0);
        CHECK(free != SEM_FAILED && full != SEM_FAILED);
        long sum = 0;
        for (int i = 0; i < ITEMS; i++) {
            CHECK(sem_wait(full) == 0);
            sum += q->items[q->out++ % ROOM];
            CHECK(sem_post(free) == 0);
        }
        _exit(sum == ITEMS * (ITEMS - 1) / 2 ? 0 : 1);
    }
    struct queue *q = open_queue(O_CREAT | O_EXCL);
    sem_t *free = sem_open(name_free, O_CREAT | O_EXCL, 0600, ROOM);
    sem_t *full = sem_open(name_full, O_CREAT | O_EXCL, 0600, 0);
    CHECK(free != SEM_FAILED && full != SEM_FAILED);
    CHECK(write(start[1], "", 1) == 1);
    for (int i = 0; i < ITEMS; i++) {
        CHECK(sem_wait(free) == 0);
        q->items[q->in++ % ROOM] = i;
        CHECK(sem_post(full) == 0);
    }
    expect_exit(consumer, 0);
    CHECK(q->in == ITEMS && q->out == ITEMS);
    CHECK(sem_unlink(name_free) == 0 && sem_unlink(name_full) == 0);
    CHECK(shm_unlink(name_queue) == 0);
    return ok();
}
