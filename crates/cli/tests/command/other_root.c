// Changes its root to an empty folder, and then writes lines for a while.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void) {
    mkdir("empty", 0700);
    // An ordinary user may do that in a namespace of its own.
    if (chroot("empty") && (unshare(CLONE_NEWUSER) || chroot("empty"))) return 1;
    for (int i = 0; i < 200; i++) {
        printf("%d\n", i);
        fflush(stdout);
        usleep(1000);
    }
    return 0;
}
