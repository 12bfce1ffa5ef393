// relive:
// Maps that the kernel refuses: descriptors that only name a file, sealed and read-only files
// that may never become writable, and ranges beyond the address space.
#include "check.h"
#include <fcntl.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static void refused(int fd, int prot, int flags, int error) {
    CHECK(mmap(NULL, 4096, prot, flags, fd, 0) == MAP_FAILED && errno == error);
}

// Large pages: whether there are some is the machine's to say, and a size that no processor has fails anywhere.
static void large_pages(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
    char *map = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, flags, -1, 0);
    printf("large pages: %d\n", map == MAP_FAILED ? errno : 0);
    map = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, flags | 13 << MAP_HUGE_SHIFT, -1, 0);
    CHECK(map == MAP_FAILED && errno == EINVAL);
}

static void moved(void) {
    char *map = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && munmap(map, 4096) == 0);
    // The flags are looked at before the memory.
    CHECK(mremap(map, 4096, 4096, MREMAP_FIXED, map + 4096) == MAP_FAILED && errno == EINVAL);
    CHECK(mremap(map, 4096, 4096, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
}

// A map that is to have no flags but those that the kernel knows: that file is in no persistent memory.
static void validated(int file) {
    refused(file, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, EOPNOTSUPP);
    refused(file, PROT_READ, MAP_SHARED_VALIDATE | 0x200000, EOPNOTSUPP);
    refused(-1, PROT_READ, MAP_SHARED_VALIDATE | 0x200000, EBADF);
    int flags = MAP_SHARED_VALIDATE | MAP_NORESERVE | MAP_POPULATE;
    CHECK(mmap(NULL, 4096, PROT_READ, flags, file, 0) != MAP_FAILED);
    // Other types ignore them, but for one that some file systems refuse.
    void *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_SYNC, file, 0);
    printf("synchronous: %d\n", map == MAP_FAILED ? errno : 0);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED | 0x200000, file, 0) != MAP_FAILED);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | 0x200000, file, 0) != MAP_FAILED);
}

// Without a key it is mprotect; a processor may have keys to give, and no kernel gives number 77.
static void keys(void) {
    char *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && syscall(SYS_pkey_mprotect, map, 4096, PROT_READ | PROT_WRITE, -1) == 0);
    map[0] = 1;
    CHECK(syscall(SYS_pkey_mprotect, map, 4096, PROT_READ, 77) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_pkey_free, 77) == -1 && errno == EINVAL);
    int key = syscall(SYS_pkey_alloc, 0, 0);
    CHECK(key >= 0 ? syscall(SYS_pkey_free, key) == 0 : errno == EINVAL || errno == ENOSPC);
    CHECK(munmap(map, 4096) == 0);
}

int main(void) {
    keys();
    large_pages();
    moved();
    int file = open("file", O_CREAT | O_RDWR, 0600);
    CHECK(file >= 0 && write(file, "text", 4) == 4);
    validated(file);
    refused(open("file", O_PATH), PROT_READ, MAP_PRIVATE, EBADF);
    refused(open("file", O_WRONLY), PROT_READ, MAP_PRIVATE, EACCES);
    int reader = open("file", O_RDONLY);
    refused(reader, PROT_READ | PROT_WRITE, MAP_SHARED, EACCES);
    char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, reader, 0);
    CHECK(map != MAP_FAILED && map[3] == 't');
    CHECK(mprotect(map, 4096, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
    for (int later = 0; later < 2; later++) {
        int sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
        CHECK(write(sealed, "seal", 4) == 4);
        char *before = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, sealed, 0);
        CHECK(before != MAP_FAILED);
        if (!later) CHECK(munmap(before, 4096) == 0);
        CHECK(fcntl(sealed, F_ADD_SEALS, later ? F_SEAL_FUTURE_WRITE : F_SEAL_WRITE) == 0);
        refused(sealed, PROT_READ | PROT_WRITE, MAP_SHARED, EPERM);
        map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, sealed, 0);
        CHECK(map != MAP_FAILED && map[0] == 's');
        CHECK(mprotect(map, 4096, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
        if (later) {
            before[0] = 'S';
            CHECK(map[0] == 'S');
        }
    }
    CHECK(munmap((void *)(1L << 62), 4096) == -1 && errno == EINVAL);
    CHECK(munmap((void *)0x7ffffffff000, 4096) == -1 && errno == EINVAL);
    return ok();
}
