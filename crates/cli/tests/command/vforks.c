// Makes ARGV[1] children by vfork(2), one after the other; each ARGV[2]nd of them executes a program.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 10, every = argc > 2 ? atoi(argv[2]) : 0;
    for (int i = 0; i < n; i++) {
        pid_t child = vfork();
        if (child == 0) {
            if (every && i % every == 0) execl("/bin/true", "true", (char *)0);
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status) return 1;
    }
    printf("%d\n", n);
    return 0;
}
