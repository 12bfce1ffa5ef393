/* Threads that share a pool of buffers, without a lock.
 *
 * A thread that finds the pool empty makes do without a buffer. But between its look at the pool
 * and its grab another thread can take the last buffer: then it grabs nothing, and crashes.
 */
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 3, BUFFERS = 2, ROUNDS = 200000, SIZE = 32 };

struct buffer {
    struct buffer *next;
    char bytes[SIZE];
};

static struct buffer buffers[BUFFERS];
static struct buffer *pool;

static void use(struct buffer *buffer, long who)
{
    for (int i = 0; i < SIZE; i++)
        buffer->bytes[i] = (char)(who + i);
}

static void *worker(void *argument)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (pool == NULL)
            continue;
        struct buffer *mine = pool;
        pool = mine->next;
        use(mine, (long)argument);
        mine->next = pool;
        pool = mine;
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i].next = pool;
        pool = &buffers[i];
    }
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, worker, (void *)(i + 1)) != 0)
            return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("all threads are done\n");
    return 0;
}
