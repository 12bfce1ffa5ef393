// A node is published by a plain store.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
    int key;
    int data;
};

static struct node *volatile head;

static void *writer(void *argument) {
    struct node *node = malloc(sizeof *node);
    node->key = 7;
    node->data = 9;
    head = node;
    return argument;
}

static void *reader(void *argument) {
    for (int i = 0; i < 100000 && !head; i++) sched_yield();
    if (head) printf("%d\n", head->data);
    return argument;
}

int main(void) {
    pthread_t first, second;
    pthread_create(&first, NULL, reader, NULL);
    pthread_create(&second, NULL, writer, NULL);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    return 0;
}
