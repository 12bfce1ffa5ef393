/* Computes for a while without a call or an atomic instruction. */
#include <stdio.h>

int main(void)
{
    unsigned long sum = 1;
    for (long i = 0; i < 300000000; i++)
        sum = sum * 6364136223846793005UL + (sum >> 7);
    printf("%lx\n", sum);
}
