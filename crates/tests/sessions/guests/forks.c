/* Output, a child by fork, one by vfork, and the same program once more by exec. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int spawned(void)
{
    return system("exit 4");
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        printf("again %s\n", argv[1]);
        return 7;
    }
    printf("before\n");
    fflush(stdout);
    if (fork() == 0)
        _exit(3);
    int status;
    wait(&status);
    printf("child %d\n", WEXITSTATUS(status));
    printf("spawned %d\n", WEXITSTATUS(spawned()));
    fflush(stdout);
    execl("/proc/self/exe", "forks", "once", (char *)0);
    return 1;
}
