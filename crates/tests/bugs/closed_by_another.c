// A descriptor is closed between the moment at which another thread has looked it up and its write.
#include "bug.h"

#include <fcntl.h>
#include <unistd.h>

static int log_file;

static void *write_lines(void *a) {
    for (int i = 0; i < 5; i++) {
        int to = __atomic_load_n(&log_file, __ATOMIC_SEQ_CST);
        FAIL_IF(write(to, "line\n", 5) != 5);
        for (volatile int n = 0; n < 1000; n++) {}
    }
    return a;
}

static void *rotate(void *a) {
    for (volatile int n = 0; n < 3000; n++) {}
    int old = __atomic_exchange_n(&log_file, open("/dev/null", O_WRONLY), __ATOMIC_SEQ_CST);
    close(old);
    return a;
}

int main(void) {
    log_file = open("/dev/null", O_WRONLY);
    ALL(write_lines, rotate);
    return 0;
}
