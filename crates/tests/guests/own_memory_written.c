// relive: link=pie,static flags="-pthread" threads=yes sketch=yes parallel=refused
// A program reads and writes its own memory through /proc, by every name and call: past protections,
// up to the end of a map, with code that has been executed before; and by process_vm_readv and
// process_vm_writev with vectors that are bad in part.
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define PAGE 4096

static char *map;
static char text[] = "some text of the program's own";

__attribute__((visibility("hidden"))) int answer_of_code(void);
asm(".text\n.p2align 4\n.globl answer_of_code\nanswer_of_code:\n\tmov $1, %eax\n\tret\n");

static void every_name(void) {
    char name[64];
    const char *names[] = {"/proc/self/mem", "/proc/thread-self/mem", name, name, NULL};
    for (int i = 0; i < 7; i++) {
        int fd = -1, folder = -1;
        if (i == 2) snprintf(name, sizeof name, "/proc/%d/mem", getpid());
        if (i == 3) snprintf(name, sizeof name, "/proc/self/task/%ld/mem", (long)gettid());
        if (i < 4) {
            fd = open(names[i], O_RDWR | O_CLOEXEC);
        } else if (i == 4) {
            CHECK((folder = open("/proc/self", O_RDONLY | O_DIRECTORY)) >= 0);
            fd = openat(folder, "mem", O_RDWR);
        } else if (i == 5) {
            CHECK(symlink("/proc/self/mem", "link") == 0 || errno == EEXIST);
            fd = open("link", O_RDWR);
        } else {
            int other = open("/proc/self/mem", O_RDONLY);
            CHECK(other >= 0);
            char self[64];
            snprintf(self, sizeof self, "/proc/self/fd/%d", other);
            fd = open(self, O_RDWR);
            CHECK(close(other) == 0);
        }
        CHECK(fd >= 0);
        int copy = dup(fd);
        CHECK(copy >= 0);
        char seen[8] = "";
        CHECK(pread(fd, seen, 4, (off_t)text) == 4 && memcmp(seen, "some", 4) == 0);
        text[0] = 'S';
        CHECK(pread(copy, seen, 4, (off_t)text) == 4 && memcmp(seen, "Some", 4) == 0);
        CHECK(pwrite(copy, "s", 1, (off_t)text) == 1 && text[0] == 's');
        struct stat st;
        CHECK(fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0);
        struct pollfd poll_for = {fd, POLLIN | POLLOUT, 0};
        CHECK(poll(&poll_for, 1, 0) == 1);
        CHECK(close(fd) == 0 && close(copy) == 0);
        if (folder >= 0) CHECK(close(folder) == 0);
        CHECK(pread(fd, seen, 4, (off_t)text) == -1 && errno == EBADF);
    }
}

static void positions(int fd) {
    char seen[8];
    CHECK(lseek(fd, (off_t)text, SEEK_SET) == (off_t)text);
    CHECK(read(fd, seen, 5) == 5 && memcmp(seen, "some ", 5) == 0);
    CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)text + 5);
    CHECK(read(fd, seen, 4) == 4 && memcmp(seen, "text", 4) == 0);
    CHECK(lseek(fd, -4, SEEK_CUR) == (off_t)text + 5);
    CHECK(write(fd, "TEXT", 4) == 4 && memcmp(text, "some TEXT", 9) == 0);
    CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)text + 9);
    CHECK(lseek(fd, 0, SEEK_END) == -1 && errno == EINVAL);
    // 64 bits, unsigned.
    CHECK(syscall(SYS_lseek, fd, 0xfffffffff0000000, SEEK_SET) == (long)0xfffffffff0000000);
    CHECK(read(fd, seen, 8) == -1 && errno == EIO);
    CHECK(write(fd, seen, 8) == -1 && errno == EIO);
    CHECK(pread(fd, seen, 8, -4096) == -1 && errno == EINVAL);
    CHECK(lseek(fd, (off_t)text, SEEK_SET) == (off_t)text);
    CHECK(read(fd, seen, 0) == 0 && write(fd, seen, 0) == 0);
    struct iovec in[2] = {{seen, 3}, {seen + 4, 2}}, out[3] = {{"so", 2}, {NULL, 0}, {"me t", 4}};
    CHECK(readv(fd, in, 2) == 5 && memcmp(seen, "som", 3) == 0 && memcmp(seen + 4, "e ", 2) == 0);
    CHECK(preadv(fd, in, 2, (off_t)text + 5) == 5 && memcmp(seen, "TEX", 3) == 0);
    CHECK(pwritev(fd, out, 3, (off_t)text) == 6 && memcmp(text, "some tEXT", 9) == 0);
    CHECK(writev(fd, out, 1) == 2 && memcmp(text, "some soXT", 9) == 0);
    CHECK(preadv2(fd, in, 1, -1, 0) == 3 && memcmp(seen, "XT ", 3) == 0);
    CHECK(preadv2(fd, in, 1, (off_t)text, RWF_NOWAIT) == -1 && errno == EOPNOTSUPP);
    CHECK(pwritev2(fd, out, 1, (off_t)text, 0) == 2);
    CHECK(syscall(SYS_readv, fd, in, -1) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_readv, fd, NULL, 1) == -1 && errno == EFAULT);
    strcpy(text, "some text of the program's own");
}

static void holes(int fd) {
    char seen[3 * PAGE];
    memset(map, 'm', 2 * PAGE);
    // map: two pages, and a hole behind.
    CHECK(pread(fd, seen, sizeof seen, (off_t)map) == 2 * PAGE && seen[0] == 'm' && seen[2 * PAGE - 1] == 'm');
    CHECK(pread(fd, seen, 100, (off_t)map + 2 * PAGE - 30) == 30);
    CHECK(pread(fd, seen, 1, (off_t)map + 2 * PAGE) == -1 && errno == EIO);
    memset(seen, 'w', sizeof seen);
    CHECK(pwrite(fd, seen, 200, (off_t)map + 2 * PAGE - 50) == 50 && map[2 * PAGE - 1] == 'w');
    CHECK(pwrite(fd, seen, 200, (off_t)map + 2 * PAGE) == -1 && errno == EIO);
    CHECK(lseek(fd, (off_t)map + 2 * PAGE - 8, SEEK_SET) > 0);
    CHECK(read(fd, seen, 100) == 8 && lseek(fd, 0, SEEK_CUR) == (off_t)map + 2 * PAGE);
    uint64_t nowhere[] = {0, 1, 4095, 4096, 0x40000800, 0x54001000, 0x58000000, 0x60000000, 0x260000000,
                          0x500000000000, 0x500000001000, 0x7fffffffe000, 0x7ffffffff000, 0x1234567800000000};
    for (unsigned i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
        CHECK(pread(fd, seen, 8, (off_t)nowhere[i]) == -1 && errno == EIO);
        CHECK(pwrite(fd, seen, 8, (off_t)nowhere[i]) == -1 && errno == EIO);
    }
    // Memory of ours that may not be used for this: the part before it is transferred.
    CHECK(pread(fd, map + PAGE, 2 * PAGE, (off_t)map) == -1 && errno == EFAULT);
    CHECK(pread(fd, map + 2 * PAGE, 8, (off_t)map) == -1 && errno == EFAULT);
    CHECK(pwrite(fd, map + 2 * PAGE, 8, (off_t)map) == -1 && errno == EFAULT);
    memset(map, 'a', PAGE);
    memset(map + PAGE, 'b', PAGE);
    static char target[3 * PAGE];
    // One page of the two is written, and then the source is at its end.
    CHECK(pwrite(fd, map + PAGE, 2 * PAGE, (off_t)target) == -1 && errno == EFAULT);
    CHECK(target[0] == 'b' && target[PAGE - 1] == 'b' && target[PAGE] == 0);
    struct iovec in[2] = {{target, 10}, {map + 2 * PAGE, 10}};
    CHECK(preadv(fd, in, 2, (off_t)map) == 10);
    CHECK(pwritev(fd, in, 2, (off_t)target + PAGE) == 10);
    // Onto itself, a little further: each piece of a page is read when the one before is written.
    for (int i = 0; i < 2 * PAGE; i++) map[i] = (char)(i * 7 + i / 256);
    memcpy(seen, map, PAGE);
    CHECK(pwrite(fd, map, 2 * PAGE - 100, (off_t)map + 100) == 2 * PAGE - 100);
    CHECK(memcmp(map, seen, 100) == 0 && memcmp(map + 100, seen, PAGE) == 0);
    CHECK(map[PAGE + 100] == seen[PAGE - 100]);
}

static void protections(int fd) {
    char seen[8];
    memset(map, 'p', 2 * PAGE);
    for (int i = 0; i < 3; i++) {
        int prot[] = {PROT_READ, PROT_NONE, PROT_EXEC};
        CHECK(mprotect(map, PAGE, prot[i]) == 0);
        CHECK(pwrite(fd, "force", 5, (off_t)map + 10 * i) == 5);
        CHECK(pread(fd, seen, 5, (off_t)map + 10 * i) == 5 && memcmp(seen, "force", 5) == 0);
        // Over the border to the page that may be written.
        CHECK(pwrite(fd, "border", 6, (off_t)map + PAGE - 3) == 6);
        CHECK(mprotect(map, PAGE, PROT_READ | PROT_WRITE) == 0);
        CHECK(memcmp(map + 10 * i, "force", 5) == 0 && memcmp(map + PAGE - 3, "border", 6) == 0);
    }
    int file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, "content of a file", 17) == 17);
    int only = open("mapped", O_RDONLY);
    char *copied = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, only, 0);
    char *shared = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, only, 0);
    char *closed = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    char *open_one = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *anon = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(copied != MAP_FAILED && shared != MAP_FAILED && closed != MAP_FAILED);
    CHECK(open_one != MAP_FAILED && anon != MAP_FAILED);
    CHECK(pread(fd, seen, 7, (off_t)shared) == 7 && memcmp(seen, "content", 7) == 0);
    CHECK(pwrite(fd, "CON", 3, (off_t)copied) == 3 && memcmp(copied, "CONtent", 7) == 0);
    CHECK(pwrite(fd, "CON", 3, (off_t)shared) == -1 && errno == EIO);
    CHECK(pwrite(fd, "CON", 3, (off_t)closed) == -1 && errno == EIO);
    CHECK(pwrite(fd, "CON", 3, (off_t)anon) == -1 && errno == EIO);
    CHECK(memcmp(shared, "content", 7) == 0);
    CHECK(pwrite(fd, "all", 3, (off_t)open_one) == 3 && memcmp(shared, "alltent", 7) == 0);
    CHECK(munmap(copied, PAGE) == 0 && munmap(shared, PAGE) == 0 && munmap(closed, PAGE) == 0);
    CHECK(munmap(open_one, PAGE) == 0 && munmap(anon, PAGE) == 0);
    CHECK(close(file) == 0 && close(only) == 0);
}

static void modes(void) {
    char seen[4] = "";
    int reads = open("/proc/self/mem", O_RDONLY), writes = open("/proc/self/mem", O_WRONLY);
    CHECK(reads >= 0 && writes >= 0);
    CHECK(pwrite(reads, "x", 1, (off_t)text) == -1 && errno == EBADF);
    CHECK(pread(writes, seen, 1, (off_t)text) == -1 && errno == EBADF);
    CHECK(pread(writes, seen, 1, 0) == -1 && errno == EBADF);
    CHECK(pread(reads, seen, 1, (off_t)text) == 1 && pwrite(writes, "s", 1, (off_t)text) == 1);
    CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, reads, 0) == MAP_FAILED && errno == ENODEV);
    CHECK(close(reads) == 0 && close(writes) == 0);
}

// Code that is executed changes, wherever it lies.
static void code(int fd) {
    const unsigned char insns[] = {0xb8, 5, 0, 0, 0, 0xc3};
    unsigned char *jit = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(jit != MAP_FAILED);
    memcpy(jit, insns, sizeof insns);
    int (*made)(void) = (int (*)(void))jit;
    for (unsigned char i = 1; i < 40; i++) {
        CHECK(pwrite(fd, &i, 1, (off_t)answer_of_code + 1) == 1 && answer_of_code() == i);
        CHECK(pwrite(fd, &i, 1, (off_t)jit + 1) == 1 && made() == i);
        if (i == 20) CHECK(mprotect(jit, PAGE, PROT_READ | PROT_EXEC) == 0);
        if (i == 30) CHECK(mprotect(jit, PAGE, PROT_EXEC) == 0);
    }
    CHECK(munmap(jit, PAGE) == 0);
}

static int start;

static void *writes_code(void *unused) {
    int fd = open("/proc/self/mem", O_RDWR);
    CHECK(fd >= 0);
    for (int i = 50; i <= 60; i++) CHECK(pwrite(fd, &i, 1, (off_t)answer_of_code + 1) == 1);
    __atomic_store_n(&start, 1, __ATOMIC_SEQ_CST);
    CHECK(close(fd) == 0);
    return unused;
}

static void in_a_thread(void) {
    pthread_t thread;
    CHECK(answer_of_code() < 50);
    CHECK0(pthread_create(&thread, NULL, writes_code, NULL));
    while (!__atomic_load_n(&start, __ATOMIC_SEQ_CST)) sched_yield();
    CHECK(answer_of_code() == 60);
    CHECK0(pthread_join(thread, NULL));
}

// Received from itself, over a socket; the number was another one's before.
static void received(int fd) {
    int pair[2], got = -1;
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = "";
    int old = open("/dev/zero", O_RDONLY);
    CHECK(read(old, &byte, 1) == 1 && close(old) == 0 && read(old, &byte, 1) == -1);
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    CHECK(sendmsg(pair[0], &message, 0) == 1 && recvmsg(pair[1], &message, 0) == 1);
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    CHECK(got == old && pwrite(got, "R", 1, (off_t)text) == 1 && text[0] == 'R');
    CHECK(pread(got, &byte, 1, 0) == -1 && errno == EIO);
    CHECK(close(got) == 0 && close(pair[0]) == 0 && close(pair[1]) == 0);
}

// A child's descriptor shows its parent's memory.
static void in_a_child(int fd) {
    strcpy(text, "the parent's");
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        char seen[16] = "";
        strcpy(text, "the child's");
        CHECK(pread(fd, seen, 12, (off_t)text) == 12 && strcmp(seen, "the parent's") == 0);
        CHECK(pread(fd, seen, 12, 0) == -1 && errno == EIO);
        int own = open("/proc/self/mem", O_RDWR);
        CHECK(own >= 0 && pread(own, seen, 11, (off_t)text) == 11 && memcmp(seen, "the child's", 11) == 0);
        CHECK(pwrite(own, "my", 2, (off_t)text) == 2 && memcmp(text, "mye child's", 11) == 0);
        _exit(5);
    }
    expect_exit(child, 5);
}

static void vectors(void) {
    char from[16] = "abcdefghijklmno", to[16] = "";
    struct iovec local[2] = {{to, 8}, {to + 8, 8}}, remote[3] = {{from, 8}, {map + 2 * PAGE, 4}, {from + 8, 8}};
    CHECK(process_vm_readv(getpid(), local, 2, remote, 1, 0) == 8 && memcmp(to, "abcdefgh", 8) == 0);
    CHECK(process_vm_readv(getpid(), local, 2, remote, 3, 0) == 8);
    CHECK(process_vm_readv(getpid(), local, 2, remote + 1, 2, 0) == -1 && errno == EFAULT);
    CHECK(process_vm_readv(getpid(), local, 2, remote, 3, 1) == -1 && errno == EINVAL);
    uint64_t hosts[] = {0x54001000, 0x500000001000, 0x40000800, 0x60000000, 0};
    for (int i = 0; i < 5; i++) {
        struct iovec there = {(void *)hosts[i], 8}, both[2] = {{from, 4}, {(void *)hosts[i], 8}};
        CHECK(process_vm_readv(getpid(), local, 1, &there, 1, 0) == -1 && errno == EFAULT);
        CHECK(process_vm_writev(getpid(), local, 1, &there, 1, 0) == -1 && errno == EFAULT);
        CHECK(process_vm_readv(getpid(), local, 1, both, 2, 0) == 4);
        CHECK(process_vm_writev(getpid(), local, 1, both, 2, 0) == 4);
        // The local side.
        CHECK(process_vm_readv(getpid(), &there, 1, local, 1, 0) == -1 && errno == EFAULT);
    }
    memset(map, 'v', 2 * PAGE);
    struct iovec end = {map + 2 * PAGE - 4, 16}, whole = {from, 16};
    strcpy(from, "abcdefghijklmno");
    CHECK(process_vm_writev(getpid(), &whole, 1, &end, 1, 0) == 4 && memcmp(map + 2 * PAGE - 4, "abcd", 4) == 0);
    CHECK(process_vm_readv(getpid(), &whole, 1, &end, 1, 0) == 4 && memcmp(from, "abcdefgh", 8) == 0);
    // No right to write is looked past here.
    CHECK(mprotect(map, PAGE, PROT_READ) == 0);
    struct iovec across = {map + PAGE - 8, 16};
    CHECK(process_vm_writev(getpid(), &whole, 1, &across, 1, 0) == -1 && errno == EFAULT);
    CHECK(mprotect(map, 2 * PAGE, PROT_READ | PROT_WRITE) == 0 && mprotect(map + PAGE, PAGE, PROT_READ) == 0);
    CHECK(process_vm_writev(getpid(), &whole, 1, &across, 1, 0) == 8);
    CHECK(process_vm_writev(getpid(), &whole, 1, remote, 0, 0) == 0);
    CHECK(process_vm_writev(getpid(), &whole, 1, remote, 2000, 0) == -1 && errno == EINVAL);
    CHECK(process_vm_writev(getpid(), &whole, 1, NULL, 1, 0) == -1 && errno == EFAULT);
}

int main(int count, char **args) {
    if (count == 2) {
        // The memory that the descriptor shows is gone with the program that opened it.
        char seen[4];
        int fd = atoi(args[1]);
        CHECK(pread(fd, seen, 4, (off_t)text) == 0 && pread(fd, seen, 4, 0) == 0);
        CHECK(pwrite(fd, seen, 4, (off_t)text) == 0);
        return ok();
    }
    int fd = open("/proc/self/mem", O_RDWR);
    CHECK(fd >= 0);
    map = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && munmap(map + 2 * PAGE, 2 * PAGE) == 0);
    every_name();
    positions(fd);
    holes(fd);
    protections(fd);
    modes();
    code(fd);
    in_a_thread();
    received(fd);
    in_a_child(fd);
    vectors();
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    fflush(stdout);
    execl("/proc/self/exe", "again", number, NULL);
    return 1;
}
