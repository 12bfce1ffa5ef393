// relive: output=free expect="wrote" timeout=60
// The kernel kills a process in the middle of its work on shared memory (its limit of processor
// time): the others see its last writes, then and in replay.
#include "check.h"
#include <sys/mman.h>
#include <sys/resource.h>

struct shared {
    volatile unsigned long count, mixed;
    unsigned long table[5000];
};

int main(void) {
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit second = {1, 1};
        CHECK(setrlimit(RLIMIT_CPU, &second) == 0);
        for (unsigned long i = 1;; i++) {
            s->count = i;
            s->mixed = s->mixed * 31 + i;
            s->table[i % 5000] = s->mixed;
        }
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(s->count > 1);
    unsigned long sum = 0;
    for (int i = 0; i < 5000; i++) sum = sum * 17 + s->table[i];
    printf("wrote %lu, %lx, %lx\n", s->count, s->mixed, sum);
    return ok();
}
