// relive: link=pie,static
// The memory map: anonymous and file mappings, private, shared, fixed, grown, moved, split,
// protected, discarded; the break; errors of each.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static int usable(void *p) {
    int pipes[2], works;
    CHECK(pipe(pipes) == 0);
    works = write(pipes[1], p, 1) == 1;
    CHECK(works || errno == EFAULT);
    close(pipes[0]);
    close(pipes[1]);
    return works;
}

static void files(void) {
    int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 3 * PAGE) == 0 && pwrite(fd, "file", 4, PAGE) == 4);
    volatile char *private = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, PAGE);
    volatile char *reader = mmap(NULL, 3 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    volatile char *writer = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(private != MAP_FAILED && reader != MAP_FAILED && writer != MAP_FAILED);
    CHECK(private[0] == 'f' && reader[PAGE + 3] == 'e');
    private[0] = 'p';
    CHECK(reader[PAGE] == 'f');
    writer[PAGE] = 's';
    writer[2 * PAGE] = 'x';
    char byte;
    CHECK(reader[PAGE] == 's' && pread(fd, &byte, 1, PAGE) == 1 && byte == 's' && private[0] == 'p');
    CHECK(msync((void *)writer, 3 * PAGE, MS_SYNC) == 0 && pread(fd, &byte, 1, 2 * PAGE) == 1 && byte == 'x');
    CHECK(pwrite(fd, "w", 1, 10) == 1 && writer[10] == 'w' && reader[10] == 'w');
    CHECK(munmap((void *)writer, 3 * PAGE) == 0 && munmap((void *)reader, 3 * PAGE) == 0);
    CHECK(pread(fd, &byte, 1, 2 * PAGE) == 1 && byte == 'x' && close(fd) == 0 && private[1] == 'i');
    CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EBADF);
}

int main(void) {
    char *a = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(a != MAP_FAILED && ((uintptr_t)a & (PAGE - 1)) == 0);
    for (int i = 0; i < 8; i++) a[i * PAGE] = (char)(i + 1);
    CHECK(munmap(a + 2 * PAGE, PAGE) == 0 && !usable(a + 2 * PAGE) && usable(a + PAGE) && usable(a + 3 * PAGE));
    CHECK(mprotect(a, 3 * PAGE, PROT_READ) == -1 && errno == ENOMEM);
    char *hole = mmap(a + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(hole == a + 2 * PAGE && hole[0] == 0);
    CHECK(mmap(a, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED && errno == EEXIST);
    CHECK(mmap(a + 4 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == a + 4 * PAGE);
    CHECK(a[4 * PAGE] == 0 && a[5 * PAGE] == 6);
    CHECK(madvise(a + 5 * PAGE, PAGE, MADV_DONTNEED) == 0 && a[5 * PAGE] == 0 && a[6 * PAGE] == 7);
    CHECK(munmap(a + 1, PAGE) == -1 && errno == EINVAL);

    char *grown = mremap(a + 6 * PAGE, 2 * PAGE, 100 * PAGE, MREMAP_MAYMOVE);
    CHECK(grown != MAP_FAILED && grown[0] == 7 && grown[PAGE] == 8 && grown[99 * PAGE] == 0);
    CHECK(grown == a + 6 * PAGE || !usable(a + 6 * PAGE));
    CHECK(mremap(grown, 100 * PAGE, 1 * PAGE, 0) == grown && !usable(grown + PAGE));
    char *target = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(mremap(grown, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target + PAGE) == target + PAGE);
    CHECK(target[PAGE] == 7 && !usable(target) && !usable(target + 2 * PAGE));
    CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
    files();

    char *start = sbrk(0);
    CHECK(start != (char *)-1 && sbrk(10 * PAGE) == start);
    memset(start, 0x5a, 10 * PAGE);
    CHECK(sbrk(-5 * PAGE) == start + 10 * PAGE && sbrk(0) == start + 5 * PAGE && usable(start));
    CHECK(sbrk(5 * PAGE) == start + 5 * PAGE && start[6 * PAGE] == 0 && start[4 * PAGE] == 0x5a);

    // A large reservation, used in a few places only.
    size_t large = (size_t)8 << 30;
    char *sparse = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(sparse != MAP_FAILED);
    for (size_t i = 0; i < large; i += large / 16) sparse[i] = 1;
    CHECK(munmap(sparse, large) == 0);
    void *blocks[50];
    for (int i = 0; i < 50; i++) {
        blocks[i] = malloc((size_t)1 << (i % 24));
        memset(blocks[i], i, (size_t)1 << (i % 24));
    }
    for (int i = 0; i < 50; i++) free(blocks[i]);
    char *big = malloc(60 << 20);
    big[0] = big[(60 << 20) - 1] = 1;
    big = realloc(big, 90 << 20);
    CHECK(big && big[0] == 1 && big[(60 << 20) - 1] == 1);
    free(big);
    unsigned char resident[8];
    CHECK(mincore(a, PAGE, resident) == 0 && mlock(a, PAGE) == 0 && munlock(a, PAGE) == 0);
    return ok();
}
