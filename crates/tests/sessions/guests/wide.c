/* A megabyte of heap, a large array on the stack, and an end between two threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Numbers: of a million characters gdb takes half a minute to make a text, at each stop. */
#define SIZE (1 << 18)
typedef unsigned block[SIZE];

block *heap;
long words[300];

void fill(block *all, int step)
{
    for (int i = 0; i < SIZE; i += step)
        (*all)[i] = 1 + i / step;
}

long on_stack(int seed)
{
    volatile long room[20000];
    for (int i = 0; i < 20000; i += 7000)
        room[i] = seed + i;
    return room[14000];
}

void *count(void *to)
{
    for (int i = 0; i < 300; i += 100)
        words[i + (long)to]++;
    return 0;
}

int main(void)
{
    heap = calloc(1, sizeof *heap);
    fill(heap, 100000);
    long got = on_stack(5);
    pthread_t thread;
    pthread_create(&thread, 0, count, (void *)1);
    count((void *)2);
    pthread_join(thread, 0);
    printf("%d %ld\n", (*heap)[200000], got);
    return 0;
}
