/* Children of vfork run in the memory of their parent. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int last;

__attribute__((noinline)) void set(int value)
{
    last = value; // here
}

int main(void)
{
    set(1);
    for (int i = 0; i < 2; i++) {
        pid_t child = vfork();
        if (child == 0) {
            set(10 + i);
            _exit(i);
        }
        int status;
        waitpid(child, &status, 0);
        set(20 + i + WEXITSTATUS(status));
    }
    printf("%d\n", last);
    return 0;
}
