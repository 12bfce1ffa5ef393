// relive:
// A program that is open for writing cannot be executed, neither by its name nor by a script's.
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int copy_of_true(void) {
    static char data[65536];
    int from = open("/bin/true", O_RDONLY), to = open("copy", O_CREAT | O_RDWR | O_TRUNC, 0755);
    CHECK(from >= 0 && to >= 0);
    for (ssize_t n; (n = read(from, data, sizeof data)) > 0;) CHECK(write(to, data, (size_t)n) == n);
    CHECK(close(from) == 0);
    return to;
}

int main(void) {
    int writer = copy_of_true();
    char *none[] = {NULL};
    // Linux before 6.14 cannot be asked whether a file is busy without executing it.
    if (syscall(SYS_execveat, writer, "", none, none, AT_EMPTY_PATH | 0x10000) != -1 || errno != ETXTBSY)
        return ok();
    CHECK(execl("./copy", "copy", NULL) == -1 && errno == ETXTBSY);
    int script = open("script", O_CREAT | O_WRONLY, 0755);
    CHECK(write(script, "#!./copy\n", 9) == 9 && close(script) == 0);
    CHECK(execl("./script", "script", NULL) == -1 && errno == ETXTBSY);
    CHECK(close(writer) == 0);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            execl(i ? "./script" : "./copy", "copy", NULL);
            _exit(9);
        }
        expect_exit(child, 0);
    }
    return ok();
}
