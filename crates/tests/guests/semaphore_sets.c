// relive: link=pie
// System V semaphore sets: all values at once, undone operations, waiting.
#include "check.h"
#include <sys/sem.h>

union semun {
    int val;
    unsigned short *array;
};

int main(void) {
    int set = semget(IPC_PRIVATE, 3, 0600);
    CHECK(set >= 0);
    unsigned short values[4] = {4, 5, 6, 77}, seen[4] = {0, 0, 0, 88};
    CHECK(semctl(set, 0, SETALL, (union semun){.array = values}) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct sembuf takes[] = {{0, -3, SEM_UNDO}, {1, 2, 0}};
        _exit(semop(set, takes, 2) == 0 ? 0 : 1);
    }
    expect_exit(child, 0);
    CHECK(semctl(set, 0, GETALL, (union semun){.array = seen}) == 0);
    CHECK(seen[0] == 4 && seen[1] == 7 && seen[2] == 6 && seen[3] == 88);
    CHECK(semctl(set, 0, GETALL, (union semun){.array = (void *)8}) == -1 && errno == EFAULT);
    CHECK(semctl(set, 0, IPC_RMID) == 0);
    CHECK(semctl(set, 0, GETALL, (union semun){.array = seen}) == -1);
    return ok();
}
