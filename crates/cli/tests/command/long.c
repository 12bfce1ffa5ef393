/* Takes a while to replay: 1 200 million turns of a loop. */
int main(void)
{
    unsigned sum = 0;
    for (unsigned n = 0; n < 1200000000u; n++) {
        sum += n;
        __asm__ volatile("" : "+r"(sum));
    }
    return sum == 7;
}
