// relive: expect=the\slast\sone sketch=yes parallel=refused
// Processes whose parent ends at once: a recording waits for them even if they have hardly begun
// when the first program ends.
#include "check.h"

int main(void) {
    for (int i = 0; i < 12; i++) {
        printf("generation %d\n", i);
        fflush(stdout);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child > 0) _exit(0);
    }
    usleep(20000);
    CHECK(write(1, "the last one\n", 13) == 13);
    return 0;
}
