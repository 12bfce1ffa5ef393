// relive: sketch=yes parallel=refused modes=record,replay,verify
// Processes that spawn another program (vfork(2) and exec) and end at once, before that has said a word.
#include "check.h"
#include <spawn.h>

extern char **environ;
enum { ROUNDS = 6, CALLS = 4000 };

static pid_t start(char *program, char *word) {
    pid_t child;
    char *args[] = {program, word, NULL};
    CHECK0(posix_spawn(&child, program, NULL, NULL, args, environ));
    return child;
}

int main(int argc, char **argv) {
    if (argc > 1 && *argv[1] == 'e') {
        // What it does comes behind the end of its parent.
        char byte;
        for (int i = 0; i < CALLS; i++) CHECK(read(0, &byte, 0) == 0);
        return 0;
    }
    if (argc > 1) {
        start(argv[0], "ends");
        _exit(0);
    }
    for (int i = 0; i < ROUNDS; i++) expect_exit(start(argv[0], "starts"), 0);
    return ok();
}
