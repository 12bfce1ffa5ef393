// relive: output=free threads=yes sketch=yes parallel=refused timeout=120 link=pie
// Processes, some forked and some executed, perform random operations on a few files: map them,
// for reading or for writing too, let go, grow and shrink maps, write, cut, punch, append, copy into.
// All look at all that they map, after each step: a replay sees the same content as the recording.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

enum { FILES = 3, PAGE = 4096, DEEPEST = 2 };

static struct {
    char *at;
    long len;
    int writes;
} maps[FILES];
static unsigned seed;
static int sink;
static unsigned long sum;
static const char *self;

static long chance(long below) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 16 & 0x7fff) % below;
}

// Through the kernel: the file may end before.
static void look(void) {
    unsigned char bytes[512];
    for (int i = 0; i < FILES; i++) {
        if (!maps[i].at) continue;
        char *from = maps[i].at + chance(maps[i].len / 512) * 512;
        if (pwrite(sink, from, 512, 0) != 512 || pread(sink, bytes, 512, 0) != 512) {
            sum = sum * 7 + 1;
            continue;
        }
        for (int k = 0; k < 512; k++) sum = sum * 31 + bytes[k];
    }
}

static void map(int i, const char *name) {
    if (maps[i].at) return;
    maps[i].writes = chance(3) == 0;
    maps[i].len = PAGE * (1 + chance(3));
    int fd = open(name, maps[i].writes ? O_RDWR : O_RDONLY);
    int prot = maps[i].writes ? PROT_READ | PROT_WRITE : PROT_READ;
    maps[i].at = mmap(NULL, maps[i].len, prot, MAP_SHARED, fd, 0);
    CHECK(maps[i].at != MAP_FAILED && close(fd) == 0);
}

static void change_map(int i) {
    if (!maps[i].at) return;
    if (chance(2)) {
        CHECK(munmap(maps[i].at, maps[i].len) == 0);
        maps[i].at = NULL;
        return;
    }
    long len = PAGE * (1 + chance(4));
    maps[i].at = mremap(maps[i].at, maps[i].len, len, MREMAP_MAYMOVE);
    maps[i].len = len;
    CHECK(maps[i].at != MAP_FAILED);
}

// By a call into the map itself, which may end before.
static void write_map(int i, const char *bytes) {
    int ends[2];
    if (!maps[i].at || !maps[i].writes) return;
    CHECK(pipe(ends) == 0 && write(ends[1], bytes, 8) == 8);
    if (read(ends[0], maps[i].at + chance(4000), 8) < 0) CHECK(errno == EFAULT);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void change_file(const char *name, const char *bytes) {
    int fd = open(name, O_RDWR), source = -1;
    off_t from = chance(100);
    CHECK(fd >= 0);
    switch (chance(7)) {
    case 0: case 1: CHECK(pwrite(fd, bytes, 1 + chance(64), chance(9000)) > 0); break;
    case 2: CHECK(ftruncate(fd, chance(12000)) == 0); break;
    case 3: CHECK(truncate(name, PAGE + chance(8192)) == 0); break;
    case 4:
        CHECK(close(fd) == 0);
        fd = open(name, O_WRONLY | (chance(4) ? O_APPEND : O_TRUNC));
        CHECK(fd >= 0 && write(fd, bytes, 20) == 20);
        break;
    case 5:
        source = open("source", O_RDONLY);
        CHECK(source >= 0 && lseek(fd, chance(5000), SEEK_SET) >= 0);
        CHECK(sendfile(fd, source, &from, chance(300)) >= 0 && close(source) == 0);
        break;
    default:
        // Not every file system can.
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, chance(5000), 1 + chance(5000));
    }
    CHECK(close(fd) == 0);
}

static void start(int depth) {
    char number[16], deep[16];
    snprintf(number, sizeof number, "%ld", chance(0x7fff));
    snprintf(deep, sizeof deep, "%d", depth);
    execl(self, self, number, deep, NULL);
    _exit(9);
}

static void steps(int depth, int count) {
    for (int k = 0; k < count; k++) {
        int i = chance(FILES);
        char name[16], bytes[64];
        snprintf(name, sizeof name, "random%d", i);
        memset(bytes, chance(256), sizeof bytes);
        switch (chance(8)) {
        case 0: case 1: map(i, name); break;
        case 2: change_map(i); break;
        case 3: write_map(i, bytes); break;
        case 4:
            if (depth >= DEEPEST || chance(2)) break;
            pid_t child = fork();
            CHECK(child >= 0);
            if (child) break;
            sum = 0;
            if (chance(3) == 0) start(depth + 1);
            steps(depth + 1, 20);
            dprintf(1, "%d: %lx\n", depth + 1, sum);
            _exit(0);
        default: change_file(name, bytes);
        }
        look();
    }
    int status;
    while (wait(&status) > 0) CHECK(status == 0);
}

static void make(const char *name, int count) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    for (int i = 0; i < count; i++) CHECK(write(fd, "0123456789", 10) == 10);
    CHECK(close(fd) == 0);
}

int main(int argc, char **argv) {
    int depth = argc > 2 ? atoi(argv[2]) : 0;
    self = argv[0];
    seed = depth ? atoi(argv[1]) : getpid();
    sink = memfd_create("sink", MFD_CLOEXEC);
    CHECK(sink >= 0);
    if (depth == 0) {
        make("source", 100);
        make("random0", 800);
        make("random1", 400);
        make("random2", 1200);
        for (int i = 0; i < 3; i++) {
            pid_t child = fork();
            CHECK(child >= 0);
            seed += 1000;
            if (child == 0) start(1);
        }
    }
    steps(depth, depth ? 30 : 60);
    dprintf(1, "%d: %lx\n", depth, sum);
    return depth ? 0 : ok();
}
