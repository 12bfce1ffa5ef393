// relive: signal=SIGKILL
// SIGKILL to itself: nothing of the process gets to run afterwards.
#include "check.h"

int main(void) {
    CHECK(write(1, "before\n", 7) == 7);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}
