#include <stdio.h>

struct point {
    int x, y;
};

int counter;
struct point points[8];
double half = 0.5;

int add(int a, int b)
{
    counter += a;
    return a + b;
}

int fib(int n)
{
    if (n < 2)
        return n;
    return fib(n - 1) + fib(n - 2);
}

void place(int i)
{
    points[i].x = i;
    points[i].y = i * i;
    half += i;
}

int main(void)
{
    int sum = 0;
    for (int i = 0; i < 100; i++)
        sum = add(i, sum);
    for (int i = 0; i < 8; i++)
        place(i);
    printf("%d %d\n", sum, fib(10));
    return 0;
}
