/* A process that a signal kills when its parent ends (PR_SET_PDEATHSIG), while a child by vfork(2) sleeps in its memory and
   another thread runs. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void *make(void *unused)
{
    (void)unused;
    for (;;) {
        pid_t child = vfork();
        if (child == 0) {
            usleep(60000);
            _exit(0);
        }
        waitpid(child, 0, 0);
    }
    return 0;
}

int main(void)
{
    pid_t middle = fork();
    if (middle == 0) {
        if (fork() == 0) {
            pthread_t thread;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pthread_create(&thread, 0, make, 0);
            for (;;)
                if (getppid() == 0)
                    return 1;
        }
        usleep(150000);
        _exit(0);
    }
    waitpid(middle, 0, 0);
    return write(1, "over\n", 5) != 5;
}
