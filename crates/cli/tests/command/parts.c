/* Two threads that count, and write much to both standard streams. Some words are written early, some late. */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 160

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
volatile unsigned early, middle, late, often, never, sum;

__attribute__((noinline)) unsigned work(unsigned n, unsigned more)
{
    for (unsigned i = 0; i < n; i++)
        sum = sum * 31 + i;
    return more ? work(n / 2, more - 1) + sum : sum;
}

/* Never returns. */
__attribute__((noinline)) void leaves(jmp_buf *back, unsigned n)
{
    work(n, 0);
    longjmp(*back, 1);
}

static void round_of(int who, int n)
{
    char text[9000];
    memset(text, 'a' + n % 26, sizeof text);
    pthread_mutex_lock(&lock);
    often++;
    if (n == ROUNDS / 2)
        middle = who;
    if (n == ROUNDS - 1)
        late++;
    int size = snprintf(text, 40, "%d.%d %u ", who, n, work(300, n % 3));
    text[size] = ' ', text[sizeof text - 1] = '\n';
    if (write(1, text, sizeof text) != sizeof text || (n % 10 == 0 && write(2, text, 30) != 30))
        _exit(3);
    pthread_mutex_unlock(&lock);
    jmp_buf back;
    if (n % 7 == 3 && setjmp(back) == 0)
        leaves(&back, n);
}

static void *thread(void *unused)
{
    (void)unused;
    for (int n = 0; n < ROUNDS; n++)
        round_of(1, n);
    return 0;
}

int main(void)
{
    pthread_t other;
    early = 7;
    pthread_create(&other, 0, thread, 0);
    for (int n = 0; n < ROUNDS; n++)
        round_of(0, n);
    pthread_join(other, 0);
    return 5;
}
