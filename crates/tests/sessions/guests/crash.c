#include <stdio.h>
#include <stdlib.h>

struct node {
    struct node *next;
    int value;
};

struct node *head;

void push(int value)
{
    struct node *n = malloc(sizeof *n);
    n->value = value;
    n->next = head;
    head = n;
}

void spoil(struct node *n)
{
    n->next = (struct node *)16;
}

int sum(void)
{
    int s = 0;
    for (struct node *n = head; n; n = n->next)
        s += n->value;
    return s;
}

int main(void)
{
    for (int i = 1; i <= 5; i++)
        push(i);
    printf("%d\n", sum());
    spoil(head->next);
    printf("%d\n", sum());
    return 0;
}
