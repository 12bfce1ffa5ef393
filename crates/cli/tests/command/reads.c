/* Four processes of two threads each that read far more than a replay may hold back. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READS = 1000 };

static void *reads(void *argument)
{
    char bytes[4096];
    int file = open("/dev/urandom", O_RDONLY);
    (void)argument;
    for (int i = 0; i < READS; i++)
        if (read(file, bytes, sizeof bytes) != sizeof bytes) _exit(1);
    return 0;
}

int main(void)
{
    pthread_t thread;
    fork();
    fork();
    pthread_create(&thread, 0, reads, 0);
    reads(0);
    pthread_join(thread, 0);
    while (wait(0) > 0) {}
    return 0;
}
