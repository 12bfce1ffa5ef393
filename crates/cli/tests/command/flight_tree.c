/* A tree of processes, each with lines of its own, for ROUNDS of 5 ms or a little longer: one that sleeps all the time,
   one of which a thread is in vfork(2) most of the time, one that talks, and a brief one in each round. The first process
   ends by a signal when all others have ended; with a second argument it ends after the first rounds, and the others go on
   by themselves. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int rounds;
static volatile int over;

static void say(const char *who, int n)
{
    char line[64];
    if (write(1, line, snprintf(line, sizeof line, "%s %d\n", who, n)) < 0)
        _exit(1);
}

static void *make(void *unused)
{
    (void)unused;
    while (!over) {
        pid_t child = vfork();
        if (child == 0) {
            usleep(40000);
            _exit(0);
        }
        waitpid(child, 0, 0);
        usleep(100);
    }
    return 0;
}

static void talk(const char *who)
{
    for (int n = 0; n < 4 * rounds; n++) {
        say(who, n);
        usleep(2500);
    }
}

static void vforks(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, make, 0);
    talk("vforks");
    over = 1;
    pthread_join(thread, 0);
}

static void talks(void) { talk("talks"); }

static void sleeps(void)
{
    say("sleeps", 0);
    usleep(rounds * 10000);
    say("woke", 0);
}

int main(int argc, char **argv)
{
    static void (*const all[])(void) = {sleeps, vforks, talks};
    rounds = atoi(argv[1]);
    say("first", 0);
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            all[i]();
            _exit(0);
        }
    for (int n = 0; n < (argc > 2 ? rounds / 8 : rounds); n++) {
        pid_t child = fork();
        if (child == 0) {
            say("brief", n);
            _exit(0);
        }
        waitpid(child, 0, 0);
        usleep(5000);
    }
    if (argc > 2)
        return 7;
    while (wait(0) > 0)
        ;
    kill(getpid(), SIGSEGV);
}
