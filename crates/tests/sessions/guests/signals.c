#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

volatile int caught;
char line[32];
int result;

void handler(int sig)
{
    caught = sig;
}

int child(int fd)
{
    return write(fd, "hello parent", 12) == 12 ? 5 : 6;
}

int main(void)
{
    int fds[2];
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    if (pipe(fds))
        return 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(fds[1]));
    if (read(fds[0], line, sizeof line) != 12)
        return 1;
    int status;
    waitpid(pid, &status, 0);
    result = WEXITSTATUS(status);
    printf("%d %d %s\n", caught, result, line);
    return 0;
}
