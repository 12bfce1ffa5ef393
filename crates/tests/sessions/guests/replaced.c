/* Another program by exec, in the same process. */
#include <stdio.h>
#include <unistd.h>

static int __attribute__((noinline)) before(int n) { return n + 1; }

int main(void) {
    printf("%d\n", before(1));
    fflush(stdout);
    execl("/bin/true", "true", (char *)0);
    return 1;
}
