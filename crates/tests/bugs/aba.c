// A stack with compare-and-swap: the top is the same again, and its next node is not.
#include "bug.h"

struct node {
    struct node *next;
    int held;
};
static struct node nodes[3];
static struct node *top;

static struct node *pop(void) {
    struct node *old = __atomic_load_n(&top, __ATOMIC_SEQ_CST);
    while (old != NULL) {
        struct node *next = old->next;
        if (__atomic_compare_exchange_n(&top, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            FAIL_IF(__atomic_fetch_add(&old->held, 1, __ATOMIC_SEQ_CST) != 0);
            return old;
        }
    }
    return NULL;
}

static void push(struct node *node) {
    struct node *old = __atomic_load_n(&top, __ATOMIC_SEQ_CST);
    __atomic_store_n(&node->held, 0, __ATOMIC_SEQ_CST);
    do node->next = old;
    while (!__atomic_compare_exchange_n(&top, &old, node, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

static void *take(void *a) {
    pop();
    return a;
}

static void *turn_over(void *a) {
    struct node *first = pop();
    pop();
    if (first != NULL) push(first);
    return a;
}

int main(void) {
    for (int i = 0; i < 3; i++) push(&nodes[i]);
    ALL(take, turn_over);
    for (int i = 0; i < 3; i++) pop();
    return 0;
}
