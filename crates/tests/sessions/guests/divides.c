/* Ends by an exception of the processor. */
int main(int argc, char **argv)
{
    volatile int zero = argc - 1;
    (void)argv;
    return 7 / zero;
}
