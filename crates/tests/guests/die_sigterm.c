// relive: signal=SIGTERM
// The default action ends the process; output that was flushed before stays.
#include "check.h"

int main(void) {
    puts("before");
    fflush(stdout);
    kill(getpid(), SIGTERM);
    for (;;) pause();
}
