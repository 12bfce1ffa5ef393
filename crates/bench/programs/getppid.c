// The cheapest system call there is, five million times.
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    long first = syscall(SYS_getppid), same = 0;
    for (int i = 0; i < 5000000; i++) same += syscall(SYS_getppid) == first;
    printf("%ld\n", same);
    return 0;
}
