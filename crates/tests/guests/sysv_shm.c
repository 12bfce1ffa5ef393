// relive: threads=yes sketch=yes parallel=refused timeout=60
// System V shared memory: a child and its parent, unrelated attachments, two views in one
// process, read-only, at a chosen address, removal while attached, and the errors.
#include "check.h"
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/shm.h>

enum { SIZE = 3 * 4096 + 100, ROUNDS = 40 };

static void change(int sem, int number, int by) {
    struct sembuf op = {.sem_num = (unsigned short)number, .sem_op = (short)by};
    CHECK(semop(sem, &op, 1) == 0);
}

// Takes its turn by System V semaphores.
static void side(int sem, volatile long *cell, int me) {
    for (int i = 0; i < ROUNDS; i++) {
        change(sem, me, -1);
        cell[0] = cell[0] * 3 + me + 1;
        change(sem, !me, 1);
    }
}

int main(void) {
    // Forked before anything exists: its attachment has nothing to do with the parent's.
    int go[2], id;
    CHECK(pipe(go) == 0);
    pid_t stranger = fork();
    CHECK(stranger >= 0);
    if (stranger == 0) {
        int both[2];
        CHECK(read(go[0], both, sizeof both) == sizeof both);
        volatile long *cell = shmat(both[0], NULL, 0);
        CHECK(cell != (void *)-1);
        side(both[1], cell, 1);
        CHECK(shmdt((void *)cell) == 0);
        _exit(4);
    }
    id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
    int sem = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
    CHECK(id >= 0 && sem >= 0);
    struct shmid_ds ds;
    CHECK(shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_segsz == SIZE && ds.shm_nattch == 0);
    volatile long *cell = shmat(id, NULL, 0);
    CHECK(cell != (void *)-1 && cell[0] == 0 && cell[SIZE / 8] == 0);
    volatile long *view = shmat(id, NULL, SHM_RDONLY);
    CHECK(view != (void *)-1 && view != cell);
    cell[100] = 77;
    CHECK(view[100] == 77);
    CHECK(shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_nattch == 2);
    int both[2] = {id, sem};
    change(sem, 0, 1);
    CHECK(write(go[1], both, sizeof both) == sizeof both);
    side(sem, cell, 0);
    expect_exit(stranger, 4);
    long after = cell[0];

    // Inherited by fork, and gone in the child only when it detaches.
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        cell[1] = after + 1;
        CHECK(shmdt((void *)cell) == 0 && shmdt((void *)cell) == -1 && errno == EINVAL);
        CHECK(view[1] == after + 1);
        _exit(0);
    }
    expect_exit(child, 0);
    CHECK(cell[1] == after + 1 && view[0] == after);

    // At a chosen address; not over a map that is there.
    void *room = mmap(NULL, 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED);
    CHECK(shmat(id, room, 0) == (void *)-1 && errno == EINVAL);
    CHECK(shmat(id, room, SHM_REMAP) == room && ((long *)room)[100] == 77);
    CHECK(munmap(room, 4096) == 0 && shmdt(room) == 0);
    CHECK(shmat(id, (char *)room + 1, 0) == (void *)-1 && errno == EINVAL);
    CHECK(shmat(id, (char *)room + 1, SHM_RND) == room && shmdt(room) == 0);
    CHECK(shmat(-1, NULL, 0) == (void *)-1 && errno == EINVAL);

    CHECK(shmctl(id, IPC_RMID, NULL) == 0 && semctl(sem, 0, IPC_RMID) == 0);
    CHECK(cell[0] == after);
    CHECK(shmdt((void *)cell) == 0 && shmdt((void *)view) == 0);
    CHECK(shmat(id, NULL, 0) == (void *)-1 && (errno == EINVAL || errno == EIDRM));
    return ok();
}
