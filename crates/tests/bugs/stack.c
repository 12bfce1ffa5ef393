// A stack without a lock: two threads take the same node.
#include "bug.h"

struct node {
    struct node *next;
    int taken;
};
static struct node nodes[3];
static struct node *volatile top;

static void *pop(void *a) {
    struct node *node = top;
    if (node == NULL) return a;
    top = node->next;
    FAIL_IF(__atomic_fetch_add(&node->taken, 1, __ATOMIC_RELAXED) != 0);
    return a;
}

int main(void) {
    for (int i = 0; i < 3; i++) nodes[i].next = top, top = &nodes[i];
    ALL(pop, pop, pop);
    return top != NULL;
}
