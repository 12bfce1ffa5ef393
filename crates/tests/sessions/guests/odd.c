/* Ways through a program that are no plain calls: a signal's handler, longjmp, recursion, code that
 * the program writes, and a library that is loaded late. */
#pragma GCC optimize("O0")
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

volatile int handled, deep;
static jmp_buf env;

void handler(int sig)
{
    handled += sig;
    deep++;
}

int fact(int n)
{
    int local = n * 2;
    if (n <= 1)
        return 1;
    int rest = fact(n - 1);
    local += rest;
    return n * (local - 2 * n);
}

void jumper(int n)
{
    if (n == 0)
        longjmp(env, 7);
    jumper(n - 1);
    deep++;
}

int over(int n)
{
    int r = setjmp(env);
    if (r == 0)
        jumper(n);
    return r;
}

int sum_to(int n)
{
    int s = 0;
    for (int i = 0; i < n; i++)
        s += i;
    return s;
}

int written(unsigned char *code, int result)
{
    unsigned char bytes[] = {0xb8, result, 0, 0, 0, 0xc3}; /* mov eax, result; ret */
    memcpy(code, bytes, sizeof bytes);
    return ((int (*)(void))code)();
}

double late(void)
{
    void *lib = dlopen("libm.so.6", RTLD_NOW);
    double (*root)(double) = (double (*)(double))dlsym(lib, "cbrt");
    double r = root(27);
    dlclose(lib);
    return r;
}

int main(void)
{
    signal(SIGUSR1, handler);
    int f = fact(6);
    raise(SIGUSR1);
    int o = over(4);
    int s = sum_to(10);
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int w = 0;
    for (int i = 1; i <= 3; i++)
        w += written(code, i);
    double l = late();
    printf("%d %d %d %d %g %d\n", f, o, s, w, l, handled);
    return 0;
}
