/* Memory that is written in every way. Prints, for each place: its name, its address, and how often
   it is written at least. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES(name, n) static char name[(n) * PAGE] __attribute__((aligned(PAGE)))

PAGES(cold, 1);
PAGES(hot, 1);
PAGES(strings, 6);
PAGES(kernel, 2);
PAGES(edge, 3);
PAGES(alternate, 16);
PAGES(atomics, 1);
static volatile int caught;

static void busy(int rounds)
{
    static volatile unsigned sum;
    for (int i = 0; i < rounds; i++)
        sum = sum * 31 + i;
}

static void fill(char *to, int value, size_t n)
{
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
}

static void copy(char *to, const char *from, size_t n)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
}

static void copy_down(char *to, const char *from, size_t n)
{
    to += n - 8, from += n - 8, n /= 8;
    __asm__ volatile("std; rep movsq; cld" : "+D"(to), "+S"(from), "+c"(n)::"memory");
}

static void write_strings(void)
{
    for (int i = 0; i < (int)sizeof strings; i++)
        strings[i] = i * 7 + i / 256;
    /* In the middle of these the watched page begins. */
    fill(strings + PAGE, 1, 3 * PAGE);
    for (int i = 0; i < (int)sizeof strings; i += 5)
        strings[i] = i;
    copy(strings + 8, strings + 24, 5 * PAGE);
    copy(strings + 24, strings + 8, 5 * PAGE);
    copy_down(strings + 40, strings + 8, 5 * PAGE);
    copy_down(strings + 8, strings + 40, 5 * PAGE);
    fill(strings + 3 * PAGE, 9, 0);
}

static void handler(int sig)
{
    caught = sig;
    busy(100);
}

static void *thread(void *unused)
{
    (void)unused;
    for (int i = 0; i < 20; i++) {
        __atomic_fetch_add((int *)atomics, 1, __ATOMIC_SEQ_CST);
        busy(500);
    }
    return 0;
}

static __attribute__((noinline)) int deep(int n)
{
    volatile char room[600];
    room[n % 600] = n;
    return n ? deep(n - 1) + room[n % 600] : 0;
}

static void show(const char *name, const void *at, int times)
{
    printf("%s %p %d\n", name, at, times);
}

int main(void)
{
    char *moved = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *place = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *common = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *heap = malloc(64);
    int local = 0, pipes[2];
    if (moved == MAP_FAILED || place == MAP_FAILED || common == MAP_FAILED || pipe(pipes))
        return 1;
    show("cold", cold + 100, 3);
    show("hot", hot + 512, 3);
    show("string", strings + 3 * PAGE + 17, 6);
    show("string-start", strings + PAGE, 6);
    show("kernel", kernel + PAGE - 2, 2);
    show("kernel-only", kernel + PAGE + 50, 2);
    show("edge", edge + PAGE + 4, 3);
    show("edge-before", edge + PAGE - 4, 3);
    show("frame", alternate + sizeof alternate - 1200, 1);
    show("atomic", atomics, 40);
    show("moved", moved + PAGE, 2);
    show("place", place + 2 * PAGE, 2);
    show("common", common, 3);
    show("heap", heap, 3);
    show("local", &local, 2);
    fflush(stdout);

    for (int i = 0; i < 3; i++) {
        cold[100] = i + 1;
        hot[512] = i + 1;
        common[0] = i + 1;
        strcpy(heap, i ? "more" : "some");
        local = i;
        for (int k = 0; k < 3000; k++)
            ((volatile char *)hot)[k % 256] = k;
        busy(20000);
    }
    write_strings();
    if (write(pipes[1], cold, 200) != 200 || read(pipes[0], kernel + PAGE - 100, 200) != 200)
        return 1;
    for (int i = 0; i < 200; i++)
        kernel[PAGE - 100 + i] = i;
    memset(kernel + PAGE + 60, 1, 8);
    if (write(pipes[1], cold, 160) != 160 || read(pipes[0], kernel + PAGE - 100, 160) != 160)
        return 1;

    /* Across the border of two pages. */
    __asm__ volatile("movups %%xmm0, %0" : "=m"(*(char(*)[16])(edge + PAGE - 8)));
    __asm__ volatile("fnstenv %0" : "=m"(*(char(*)[28])(edge + PAGE - 12)));
    __asm__ volatile("mov %%rsp, %%rax; lea %0, %%rsp; push %%rax; push $5; push $6; mov %%rax, %%rsp"
                     : "=m"(*(char(*)[16])(edge + PAGE + 12))::"rax", "memory");
    __asm__ volatile("lock cmpxchg %1, %0" : "+m"(*(long *)(edge + PAGE - 4)) : "r"(3l) : "rax", "cc");
    __asm__ volatile("xor %%edx, %%edx; mov $3, %%eax; xsave64 %0"
                     : "=m"(*(char(*)[576])(edge + 2 * PAGE))::"rax", "rdx");

    stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
    if (sigaltstack(&stack, 0) || sigaction(SIGUSR1, &action, 0))
        return 1;
    raise(SIGUSR1);
    raise(SIGUSR1);

    pthread_t other;
    pthread_create(&other, 0, thread, 0);
    thread(0);
    pthread_join(other, 0);

    strcpy(moved + PAGE, "old");
    char *now = mremap(moved, 3 * PAGE, 5 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    if (now != place)
        return 1;
    strcpy(place + 2 * PAGE, "new");
    mprotect(place, 4 * PAGE, PROT_READ);
    busy(10);
    mprotect(place, 4 * PAGE, PROT_READ | PROT_WRITE);
    place[2 * PAGE] = 'N';
    if (mmap(moved, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != moved)
        return 1;
    strcpy(moved + PAGE, "again");

    if (fork() == 0) {
        cold[100] = 77;
        _exit(deep(50) & 1);
    }
    int status;
    wait(&status);
    free(heap);
    printf("%d %d %s\n", local, deep(200) != 0, moved + PAGE);
    return caught == SIGUSR1 ? 0 : 1;
}
