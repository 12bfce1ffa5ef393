// Reads the monotonic clock fifteen million times; natively that never enters the kernel.
#include <stdio.h>
#include <time.h>

int main(void) {
    struct timespec before = {0, 0}, now;
    long backwards = 0;
    for (int i = 0; i < 15000000; i++) {
        if (clock_gettime(CLOCK_MONOTONIC, &now)) return 1;
        backwards += now.tv_sec < before.tv_sec ||
                     (now.tv_sec == before.tv_sec && now.tv_nsec < before.tv_nsec);
        before = now;
    }
    printf("backwards %ld\n", backwards);
    return 0;
}
