// relive:
// What may be executed and what it is called then: FIFOs, scripts of scripts, lines that begin with #!, and permission by the ids
// that count.
#include "check.h"
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char self[4096];

static void file(const char *name, int mode, const char *text) {
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0700);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(fchmod(fd, mode) == 0 && close(fd) == 0);
}

static void copy(const char *name, int mode) {
    char bytes[65536];
    ssize_t n;
    int from = open(self, O_RDONLY), to = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0700);
    CHECK(from >= 0 && to >= 0);
    while ((n = read(from, bytes, sizeof bytes)) > 0) CHECK(write(to, bytes, n) == n);
    CHECK(fchmod(to, mode) == 0 && close(from) == 0 && close(to) == 0);
}

// 0 to 99: how the program ended; 100 and more: the errno of exec, and 100.
static int ends(const char *name, void (*before)(void)) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char *argv[] = {"shown", NULL}, *envp[] = {"SHOWN=1", NULL};
        if (before) before();
        execve(name, argv, envp);
        _exit(100 + errno);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void effective(void) { CHECK(seteuid(60123) == 0); }
static void real(void) { CHECK(setresuid(60123, 0, 0) == 0); }
static void files(void) { setfsuid(60123); }

// What a started copy of this program is called.
static int show(int argc, char **argv) {
    char name[16], *path = (char *)getauxval(AT_EXECFN);
    CHECK(prctl(PR_GET_NAME, name) == 0);
    char *base = strrchr(path, '/');
    CHECK(strcmp(name, base ? base + 1 : path) == 0);
    printf("%s:", name);
    for (int i = 1; i < argc; i++) printf(" %s", argv[i]);
    printf("\n");
    fflush(stdout);
    return argc;
}

int main(int argc, char **argv) {
    if (getenv("SHOWN")) return show(argc, argv);
    char text[5000], name[20];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(n > 0);
    self[n] = 0;
    mkdir("decisions", 0755);
    CHECK(chdir("decisions") == 0);
    CHECK(symlink(self, "elf") == 0 || errno == EEXIST);
    unlink("fifo");
    CHECK(mkfifo("fifo", 0777) == 0);
    CHECK(ends("fifo", NULL) == 100 + EACCES);
    CHECK(ends("/dev/null", NULL) == 100 + EACCES);
    CHECK(ends(".", NULL) == 100 + EACCES);
    // Five scripts lead to a program, six do not.
    strcpy(name, "elf");
    for (int i = 1; i <= 6; i++) {
        sprintf(text, "#!%s\n", name);
        sprintf(name, "s%d", i);
        file(name, 0755, text);
        CHECK(ends(name, NULL) == (i < 6 ? i + 1 : 100 + ELOOP));
    }
    file("args", 0755, "#! elf  one two \t\nbody");
    CHECK(ends("args", NULL) == 3);
    file("open", 0755, "#!elf one");
    CHECK(ends("open", NULL) == 3);
    file("blank", 0755, "#! \t\n");
    CHECK(ends("blank", NULL) == 100 + ENOEXEC);
    memset(text, 'a', 600);
    memcpy(text, "#!", 2);
    text[600] = 0;
    file("long", 0755, text);
    CHECK(ends("long", NULL) == 100 + ENOEXEC);
    text[5] = ' ';
    text[2] = 'e', text[3] = 'l', text[4] = 'f';
    file("longer", 0755, text);
    CHECK(ends("longer", NULL) == 3);
    if (getuid() == 0) {
        copy("private", 0744);
        CHECK(chmod(".", 0755) == 0);
        char here[4096];
        CHECK(getcwd(here, sizeof here) != NULL);
        // Others may come here only where all folders above let them.
        CHECK(setresuid(60123, 60123, 0) == 0);
        int reached = access("./private", F_OK) == 0 && access(here, X_OK) == 0;
        CHECK(setresuid(0, 0, 0) == 0);
        if (reached) {
            CHECK(ends("./private", effective) == 100 + EACCES);
            CHECK(ends("./private", files) == 100 + EACCES);
        }
        CHECK(ends("./private", real) == 1);
    }
    puts("ok");
    return 0;
}
