// relive: link=static
// A program that becomes another user, gives up capabilities or changes its root: it goes on
// mapping files, forking and executing, with and without a /proc in its root.
#include "check.h"
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

extern char **environ;
static int self, data;

static void *nothing(void *arg) {
    return arg;
}

static void maps_and_threads(void) {
    char *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, data, 0);
    CHECK(map != MAP_FAILED && memcmp(map, "kept", 4) == 0);
    int own = open("own", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (own >= 0) {
        CHECK(write(own, "mine", 4) == 4);
        map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
        CHECK(map != MAP_FAILED && memcmp(map, "mine", 4) == 0);
    }
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, nothing, NULL));
    CHECK0(pthread_join(thread, NULL));
}

// Executes this program anew in a child, and once more from there.
static void execs(const char *what) {
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char *arguments[] = {"again", (char *)what, "2", NULL};
        syscall(SYS_execveat, self, "", arguments, environ, AT_EMPTY_PATH);
        _exit(90);
    }
    expect_exit(child, 7);
    child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        char *arguments[] = {"again", (char *)what, "0", NULL};
        syscall(SYS_execveat, self, "", arguments, environ, AT_EMPTY_PATH);
        _exit(91);
    }
    expect_exit(child, 7);
}

static void becomes_another(void) {
    CHECK(setgroups(0, NULL) == 0 && setresgid(1000, 1000, 1000) == 0);
    CHECK(prctl(PR_GET_DUMPABLE) == 0 || prctl(PR_GET_DUMPABLE) == 1);
    CHECK(setresuid(1000, 1000, 1000) == 0 && getuid() == 1000);
    CHECK(prctl(PR_GET_DUMPABLE) == 0);
    maps_and_threads();
    // It can close no descriptor of the recorder's own: they are not there for it.
    CHECK(dup2(self, 40) == 40 && dup2(data, 41) == 41);
    self = 40, data = 41;
    CHECK(close_range(42, ~0u, 0) == 0);
    maps_and_threads();
    execs("user");
}

static void becomes_another_and_back(void) {
    CHECK(seteuid(1000) == 0);
    maps_and_threads();
    execs("effective");
    CHECK(seteuid(0) == 0);
    maps_and_threads();
    execs("back");
}

static void in_a_vfork_child(void) {
    pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        char *arguments[] = {"again", "vfork", "1", NULL};
        if (syscall(SYS_setresgid, 77, 77, 77) || syscall(SYS_setresuid, 77, 77, 77)) _exit(92);
        for (int fd = 100; fd < 2000; fd++) close(fd);
        syscall(SYS_execveat, self, "", arguments, environ, AT_EMPTY_PATH);
        _exit(93);
    }
    expect_exit(child, 7);
    maps_and_threads();
    execs("parent");
}

static void gives_up_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2];
    memset(none, 0, sizeof none);
    CHECK(prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) == 0);
    CHECK(syscall(SYS_capset, &header, none) == 0);
    maps_and_threads();
    execs("capabilities");
}

static void changes_its_root(void) {
    char buffer[1 << 16];
    ssize_t n;
    CHECK(mkdir("root", 0755) == 0 || errno == EEXIST);
    int copy = open("root/me", O_WRONLY | O_CREAT | O_TRUNC, 0755);
    CHECK(copy >= 0 && lseek(self, 0, SEEK_SET) == 0);
    while ((n = read(self, buffer, sizeof buffer)) > 0) CHECK(write(copy, buffer, (size_t)n) == n);
    CHECK(close(copy) == 0 && chroot("root") == 0 && chdir("/") == 0);
    maps_and_threads();
    CHECK(open("/proc/self/exe", O_RDONLY) < 0 && errno == ENOENT);
    CHECK(setgid(77) == 0 && setuid(77) == 0);
    maps_and_threads();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl("/me", "again", "root", "0", NULL);
        _exit(94);
    }
    expect_exit(child, 7);
}

static void alone(void (*part)(void)) {
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        part();
        fflush(stdout);
        _exit(0);
    }
    expect_exit(child, 0);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[0], "again") == 0) {
        printf("%s: user %d, group %d\n", argv[1], (int)geteuid(), (int)getegid());
        fflush(stdout);
        char left[2] = {(char)(argv[2][0] - 1), 0};
        if (argv[2][0] == '0') return 7;
        self = open("/proc/self/exe", O_RDONLY);
        char *arguments[] = {"again", argv[1], left, NULL};
        syscall(SYS_execveat, self, "", arguments, environ, AT_EMPTY_PATH);
        return 95;
    }
    if (geteuid() != 0) return ok(); // Only root may.
    self = open("/proc/self/exe", O_RDONLY);
    data = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(self >= 0 && data >= 0 && write(data, "kept", 4) == 4);
    alone(becomes_another);
    alone(becomes_another_and_back);
    alone(in_a_vfork_child);
    alone(gives_up_capabilities);
    alone(changes_its_root);
    maps_and_threads();
    return ok();
}
