/* Functions for a debugger to call: with locks, threads, output, a crash, and an end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long total;
char *kept;

int takes_lock(void)
{
    pthread_mutex_lock(&lock);
    total++;
    pthread_mutex_unlock(&lock);
    return (int)total;
}

int waits_for_itself(void)
{
    pthread_mutex_lock(&lock);
    return takes_lock();
}

void *adds(void *by)
{
    total += (long)by;
    return by;
}

int starts_thread(void)
{
    pthread_t thread;
    int error = pthread_create(&thread, 0, adds, (void *)100);
    return error ? error : pthread_join(thread, 0);
}

int crashes(void)
{
    volatile int *nothing = 0;
    return *nothing;
}

int ends(int code)
{
    exit(code);
}

int says(const char *text)
{
    int n = printf("says %s\n", text);
    fflush(stdout);
    return n;
}

char *allocates(size_t n)
{
    char *all = malloc(n);
    memset(all, 'x', n);
    kept = all;
    return all;
}

int main(void)
{
    takes_lock();
    says("it once");
    free(allocates(100));
    printf("%ld %d\n", total, getpid() > 0);
    return total == 1 ? 0 : 1;
}
