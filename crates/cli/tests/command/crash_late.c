// Crashes a while behind its last call: through a pointer that it has set to nothing in between.
#include <stdio.h>

static int value;
int *place = &value;

int main(void) {
    for (int i = 0; i < 20; i++) {
        printf("%d\n", i);
        fflush(stdout);
    }
    for (volatile int i = 0; i < 1000; i++) {}
    place = NULL;
    return *(volatile int *)place;
}
