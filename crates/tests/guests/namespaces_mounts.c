// relive: threads=yes sketch=yes parallel=refused link=static
// A namespace of mounts: file systems that appear and vanish, another root, a new /proc of a namespace of
// processes, and none at all; programs executed and files mapped there.
#include "check.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

static void put(const char *path, const char *text, int flags) {
    int fd = open(path, O_WRONLY | flags, 0755);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void await(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void map_ids(uid_t uid, gid_t gid) {
    char text[64];
    put("/proc/self/setgroups", "deny", 0);
    snprintf(text, sizeof text, "0 %u 1\n", uid);
    put("/proc/self/uid_map", text, 0);
    snprintf(text, sizeof text, "0 %u 1\n", gid);
    put("/proc/self/gid_map", text, 0);
}

static void mapped(const char *path) {
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    char *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(at != MAP_FAILED && memcmp(at, "text", 4) == 0);
    CHECK(munmap(at, 4096) == 0);
    close(fd);
}

static void copy(const char *from, const char *to) {
    static char bytes[1 << 16];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0755);
    CHECK(in >= 0 && out >= 0);
    for (ssize_t n; (n = read(in, bytes, sizeof bytes)) > 0;) CHECK(write(out, bytes, (size_t)n) == n);
    close(in), close(out);
}

static void run(const char *path, const char *word) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl(path, path, word, NULL);
        _exit(9);
    }
    await(child);
}

// In the new root, as the first process of a namespace of processes.
static void inside(void) {
    CHECK(getpid() == 1);
    put("/file", "text of a file", O_CREAT);
    mapped("/file");
    char link[64] = {0};
    CHECK(readlink("/proc/self", link, sizeof link - 1) == 1 && link[0] == '1');
    CHECK(readlink("/proc/self/exe", link, sizeof link - 1) > 0);
    run("/program", "with");
    CHECK(umount2("/proc", 0) == 0);
    run("/program", "without");
    CHECK(open("/proc/self/maps", O_RDONLY) == -1 && errno == ENOENT);
    mapped("/file");
    // A root below, and paths of before by a descriptor.
    int root = open("/", O_PATH);
    CHECK(mkdir("/below", 0755) == 0);
    CHECK(chroot("/below") == 0);
    CHECK(access("/file", F_OK) == -1 && errno == ENOENT);
    CHECK(faccessat(root, "file", F_OK, 0) == 0);
    struct statfs fs;
    CHECK(fstatfs(root, &fs) == 0);
    CHECK(fs.f_type == 0x01021994);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        mapped("/file");
        char link[64] = {0};
        ssize_t n = readlink("/proc/self/exe", link, sizeof link - 1);
        CHECK(strcmp(argv[1], "with") == 0 ? n == 8 && strcmp(link, "/program") == 0 : n == -1 && errno == ENOENT);
        int fd = open("/proc/self/maps", O_RDONLY);
        CHECK((fd >= 0) == (n == 8));
        pid_t child = fork();
        if (child == 0) _exit(0);
        await(child);
        printf("%s /proc: process %d of parent %d\n", argv[1], getpid(), getppid());
        return ok();
    }
    uid_t uid = getuid();
    gid_t gid = getgid();
    char self[256] = {0}, place[] = "/tmp/namespaces.XXXXXX", path[300];
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    CHECK(mkdtemp(place) != NULL);
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) != 0) {
            printf("no namespaces of users here\n");
            exit(ok());
        }
        map_ids(uid, gid);
        CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
        CHECK(mount("tmpfs", place, "tmpfs", 0, "size=64m,mode=755") == 0);
        snprintf(path, sizeof path, "%s/program", place);
        copy(self, path);
        fflush(stdout);
        pid_t first = fork();
        if (first == 0) {
            snprintf(path, sizeof path, "%s/old", place);
            CHECK(mkdir(path, 0755) == 0);
            char proc[300];
            snprintf(proc, sizeof proc, "%s/proc", place);
            CHECK(mkdir(proc, 0755) == 0);
            // Only where the whole of the old one can be seen.
            CHECK(mount("proc", proc, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0);
            CHECK(syscall(SYS_pivot_root, place, path) == 0);
            CHECK(chdir("/") == 0);
            CHECK(umount2("/old", MNT_DETACH) == 0);
            CHECK(rmdir("/old") == 0);
            inside();
            exit(ok());
        }
        await(first);
        exit(0);
    }
    await(child);
    CHECK(rmdir(place) == 0);
    return ok();
}
