/* A tree of processes with threads, each of which writes lines. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int level;
static volatile int done[4];

__attribute__((noinline)) int say(int who, int n)
{
    char line[64];
    int len = snprintf(line, sizeof line, "level %d thread %d line %d\n", level, who, n);
    done[who]++;
    return write(1, line, len) == len;
}

static void *work(void *who)
{
    for (int i = 0; i < 8; i++) {
        for (volatile int k = 0; k < 400; k++)
            ;
        say((int)(long)who, i);
    }
    return 0;
}

static int crowd(void)
{
    pthread_t threads[3];
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, work, (void *)(i + 1));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return done[1] + done[2] + done[3];
}

int main(void)
{
    for (int i = 0; i < 2; i++) {
        if (fork() == 0) {
            level++;
            if (level == 1 && i == 0 && fork() == 0)
                level = 9;
            else if (level == 1 && i == 0)
                wait(0);
            return crowd();
        }
        say(0, i);
    }
    while (wait(0) > 0)
        ;
    return crowd();
}
