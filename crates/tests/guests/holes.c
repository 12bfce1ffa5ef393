// relive: link=pie,static
// Memory that is not mapped is not there: the faults and results of calls there, as for memory that is
// mapped and may not be touched. And a sparse file, of which a copy has holes too.
#include "check.h"
#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE 4096ul
static sigjmp_buf back;
static volatile int code, error;
static void *volatile where;

static void fault(int number, siginfo_t *info, void *context) {
    (void)number;
    code = info->si_code, where = info->si_addr;
    error = (int)((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR];
    siglongjmp(back, 1);
}

static void touch(volatile char *at, int write, int wanted_code, int wanted_error) {
    code = 0;
    if (sigsetjmp(back, 1) == 0) {
        if (write) *at = 1;
        else (void)*at;
    }
    CHECK(code == wanted_code && where == at && error == wanted_error);
}

int main(void) {
    unsigned char resident[4];
    handle(SIGSEGV, fault, 0);
    char *map = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && munmap(map + 2 * PAGE, PAGE) == 0);
    map[0] = map[4 * PAGE] = map[5 * PAGE] = 1;
    CHECK(mprotect(map + 4 * PAGE, PAGE, PROT_NONE) == 0 && mprotect(map + 5 * PAGE, PAGE, PROT_READ) == 0);
    touch(map + 2 * PAGE + 5, 0, SEGV_MAPERR, 4);
    touch(map + 2 * PAGE + 5, 1, SEGV_MAPERR, 6);
    touch(map + 5 * PAGE + 9, 1, SEGV_ACCERR, 7);
    touch((char *)8, 0, SEGV_MAPERR, 4);
    touch(map + 4 * PAGE, 0, SEGV_ACCERR, 4);
    char *moved = mremap(map + 6 * PAGE, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED);
    touch(map + 6 * PAGE, 0, SEGV_MAPERR, 4);
    CHECK(mincore(map, PAGE, resident) == 0 && resident[0] & 1);
    CHECK(mincore(map, 4 * PAGE, resident) == -1 && errno == ENOMEM);
    CHECK(mincore(map + 2 * PAGE, PAGE, resident) == -1 && errno == ENOMEM);
    CHECK(mincore(map + 1, PAGE, resident) == -1 && errno == EINVAL);
    CHECK(msync(map, PAGE, MS_SYNC) == 0);
    CHECK(msync(map, 4 * PAGE, MS_SYNC) == -1 && errno == ENOMEM);
    CHECK(msync(map + 1, PAGE, MS_SYNC) == -1 && errno == EINVAL);
    CHECK(mlock(map + 2 * PAGE, PAGE) == -1 && errno == ENOMEM);
    void *end = sbrk(0);
    CHECK(sbrk(16 * PAGE) == end && sbrk(-16 * (long)PAGE) != (void *)-1);
    touch((char *)end + 8 * PAGE, 1, SEGV_MAPERR, 6);

    int file = open("sparse", O_RDWR | O_CREAT | O_TRUNC, 0600);
    off_t far = 1l << 27;
    CHECK(file >= 0 && pwrite(file, "end", 3, far) == 3 && pwrite(file, "start", 5, 0) == 5);
    map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, far);
    CHECK(map != MAP_FAILED && memcmp(map, "end", 4) == 0);
    map = mmap(NULL, 1ul << 20, PROT_READ, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED && memcmp(map, "start", 6) == 0 && map[PAGE] == 0);
    CHECK(unlink("sparse") == 0);
    return ok();
}
