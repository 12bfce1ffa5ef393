/* A bank whose threads move money between accounts without a lock.
 *
 * Money is only moved, so the total must stay as it was. Two threads that change one account
 * at the same moment can lose one of the changes: then the total is wrong.
 */
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, ACCOUNTS = 6, START = 1000, TRANSFERS = 500000 };

static long accounts[ACCOUNTS];

static void transfer(int from, int to, long amount)
{
    long there = accounts[from];
    if (there < amount)
        return;
    long here = accounts[to];
    accounts[from] = there - amount;
    accounts[to] = here + amount;
}

static void *clerk(void *argument)
{
    unsigned random = (unsigned)(long)argument * 2654435761u + 1;
    for (int i = 0; i < TRANSFERS; i++) {
        random = random * 1664525u + 1013904223u;
        int from = (int)((random >> 8) % ACCOUNTS);
        int to = (int)((random >> 16) % ACCOUNTS);
        if (from != to)
            transfer(from, to, (long)(random >> 24) % 50 + 1);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < ACCOUNTS; i++)
        accounts[i] = START;
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, clerk, (void *)i) != 0)
            return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    long total = 0;
    for (int i = 0; i < ACCOUNTS; i++) {
        printf("account %d: %6ld\n", i, accounts[i]);
        total += accounts[i];
    }
    int right = total == (long)ACCOUNTS * START;
    printf("total: %ld, should be %d: %s\n", total, ACCOUNTS * START, right ? "right" : "WRONG");
    return right ? 0 : 1;
}
