// relive: link=pie,static
// Reads of files, in every way that the content, the file or the buffer can change
// between two reads of the same place: all of it must be seen again as it was read.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { PAGE = 4096, SIZE = 10 * PAGE + 123 };

static unsigned char content[SIZE];
static unsigned char buffer[SIZE + PAGE];

static unsigned hash(const unsigned char *at, ssize_t n) {
    unsigned h = 2166136261u;
    for (ssize_t i = 0; i < n; i++) h = (h ^ at[i]) * 16777619u;
    return h;
}

static void fill(unsigned seed) {
    for (size_t i = 0; i < SIZE; i++) {
        seed = seed * 1103515245u + 12345u;
        content[i] = seed >> 16;
    }
}

static int make(const char *name) {
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, content, SIZE) == SIZE);
    return file;
}

// Reads a range and compares it with its expected content.
static void same(int file, off_t at, size_t n) {
    memset(buffer, 0xee, sizeof buffer);
    ssize_t wanted = at >= SIZE ? 0 : at + (off_t)n > SIZE ? SIZE - at : (ssize_t)n;
    CHECK(pread(file, buffer, n, at) == wanted);
    CHECK(memcmp(buffer, content + (wanted ? at : 0), wanted) == 0);
    CHECK(buffer[wanted] == 0xee);
}

static void ranges(int file) {
    for (off_t at = 0; at <= SIZE + PAGE; at += PAGE) same(file, at, PAGE);
    for (off_t at = 0; at < SIZE; at += 1000) same(file, at, 3 * PAGE + 1);
    for (size_t n = 500; n < 530; n++) same(file, 77, n);
    same(file, 0, SIZE + 1);
    same(file, SIZE - 1, 100);
    CHECK(pread(file, buffer, PAGE, -1) == -1 && errno == EINVAL);
}

// The file changes between reads: by write, by truncation, and back to its first content.
static void changes(int file) {
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < SIZE; i += 700 + round) content[i] ^= 0x5a;
        CHECK(pwrite(file, content, SIZE, 0) == SIZE);
        ranges(file);
    }
    CHECK(ftruncate(file, 3 * PAGE) == 0);
    CHECK(pread(file, buffer, 2 * PAGE, 2 * PAGE) == PAGE);
    CHECK(memcmp(buffer, content + 2 * PAGE, PAGE) == 0);
    CHECK(ftruncate(file, SIZE) == 0);
    memset(content + 3 * PAGE, 0, SIZE - 3 * PAGE);
    ranges(file);
}

// Scattered over pages, one of which cannot be written to.
static void scattered(int file) {
    unsigned char *pages =
        mmap(NULL, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + 3 * PAGE, PAGE, PROT_NONE) == 0);
    struct iovec good[] = {{pages, 700}, {pages + PAGE - 10, 20}, {pages + 2 * PAGE, 0},
                           {pages + 2 * PAGE + 1, PAGE - 1}, {pages + 4 * PAGE, 2 * PAGE}};
    CHECK(preadv(file, good, 5, 5) == 700 + 20 + PAGE - 1 + 2 * PAGE);
    printf("scattered %08x\n", hash(pages + 4 * PAGE, 2 * PAGE) ^ hash(pages, 3 * PAGE));
    // The kernel stops at the page, part of the way.
    memset(pages, 0, 3 * PAGE);
    ssize_t n = pread(file, pages + PAGE, 4 * PAGE, 0);
    CHECK(n > 0 && n <= 2 * PAGE && memcmp(pages + PAGE, content, n) == 0);
    printf("up to a bad page %zd\n", n);
    struct iovec bad[] = {{pages, 600}, {pages + 3 * PAGE, PAGE}, {pages, 600}};
    n = preadv(file, bad, 3, 0);
    CHECK(n == 600 && memcmp(pages, content, n) == 0);
    CHECK(pread(file, pages + 3 * PAGE, PAGE, 0) == -1 && errno == EFAULT);
    // The same memory twice in one call: the later part stays.
    struct iovec twice[] = {{pages, PAGE}, {pages + 100, PAGE}};
    CHECK(preadv(file, twice, 2, 0) == 2 * PAGE);
    CHECK(memcmp(pages, content, 100) == 0);
    CHECK(memcmp(pages + 100, content + PAGE, PAGE) == 0);
    CHECK(munmap(pages, 6 * PAGE) == 0);
}

static void positions(int file) {
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    unsigned h = 0;
    ssize_t n;
    for (int i = 0; (n = read(file, buffer, 600 + 97 * (i % 40))) > 0; i++) {
        h = h * 31 + hash(buffer, n);
    }
    CHECK(n == 0 && lseek(file, 0, SEEK_CUR) == SIZE);
    printf("in order %08x\n", h);
}

// Code is read into a page that was executed, and executed again.
static void code(void) {
    unsigned char *page =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (int value = 1; value <= 6; value++) {
        // mov eax, value; ret
        unsigned char body[PAGE] = {0xb8, value % 3, 0, 0, 0, 0xc3};
        int file = open("code", O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(file >= 0 && write(file, body, PAGE) == PAGE);
        CHECK(pread(file, page, PAGE, 0) == PAGE);
        CHECK(((int (*)(void))page)() == value % 3);
        CHECK(close(file) == 0);
    }
    CHECK(munmap(page, PAGE) == 0 && unlink("code") == 0);
}

static void other_files(void) {
    // A memfd that is mapped shared: the bytes read from it were written through the map.
    int memory = syscall(SYS_memfd_create, "m", 0);
    CHECK(memory >= 0 && ftruncate(memory, 2 * PAGE) == 0);
    unsigned char *map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    CHECK(map != MAP_FAILED);
    for (int i = 0; i < 5; i++) {
        memset(map + 100 * i, 'a' + i, 3000);
        CHECK(pread(memory, buffer, 2 * PAGE, 0) == 2 * PAGE);
        CHECK(memcmp(buffer, map, 2 * PAGE) == 0);
        // A file is read into its own map.
        CHECK(pread(memory, map + PAGE, PAGE - 1, 0) == PAGE - 1);
        CHECK(memcmp(map, map + PAGE, PAGE - 1) == 0);
    }
    CHECK(munmap(map, 2 * PAGE) == 0 && close(memory) == 0);
    // Files that the kernel makes up, which are regular ones by their mode.
    for (int i = 0; i < 3; i++) {
        const char *names[] = {"/proc/cpuinfo", "/proc/self/status", "/sys/kernel/notes"};
        int file = open(names[i], O_RDONLY);
        if (file < 0) continue;
        while (read(file, buffer, PAGE) > 0) {
        }
        CHECK(close(file) == 0);
    }
    // Past the page cache, where the file system can.
    int direct = open("direct", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    if (direct >= 0) {
        unsigned char *page =
            mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(page != MAP_FAILED);
        for (int i = 0; i < 3; i++) {
            memset(page, '0' + i, PAGE);
            if (pwrite(direct, page, PAGE, 0) != PAGE) break;
            memset(page, 0, PAGE);
            CHECK(pread(direct, page, PAGE, 0) == PAGE && page[0] == '0' + i && page[4095] == page[0]);
        }
        CHECK(munmap(page, PAGE) == 0 && close(direct) == 0 && unlink("direct") == 0);
    }
}

int main(void) {
    fill(1);
    int file = make("data");
    ranges(file);
    ranges(file);
    positions(file);
    // Gone from its folder, and another one has its name and its content in part.
    CHECK(unlink("data") == 0);
    int second = make("data");
    ranges(second);
    changes(second);
    ranges(second);
    fill(1);
    ranges(file);
    scattered(file);
    positions(file);
    CHECK(close(file) == 0 && close(second) == 0 && unlink("data") == 0);
    code();
    other_files();
    return ok();
}
