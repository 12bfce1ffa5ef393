// relive: exit=255 expect="handler 2\nhandler 1\n"
// Every exit status from 0 to 255 in children, _exit without handlers, exit with them.
#include "check.h"

static void one(void) { puts("handler 1"); }
static void two(void) { puts("handler 2"); }

int main(void) {
    CHECK(atexit(one) == 0 && atexit(two) == 0);
    for (int status = 0; status < 256; status += 15) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) _exit(status);
        expect_exit(child, status);
    }
    exit(-1);
}
