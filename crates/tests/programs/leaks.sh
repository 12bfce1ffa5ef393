#!/bin/bash
# relive: modes=record,replay,verify needs-tool=gcc,sed timeout=120
# LeakSanitizer looks for leaks at the end of programs with AddressSanitizer: while threads run, of
# which some have the only pointers; with leaks and without; twice in one program, and in a child.
set -euo pipefail
export TMPDIR=.
cat > leaks.c <<'C'
#include <pthread.h>
#include <sanitizer/lsan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int started;
static void *holds(void *arg) {
    // Only this thread's stack leads to it.
    char *volatile block = malloc(100);
    block[0] = 1;
    __atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST);
    for (;;) pause();
    return arg;
}
static void *spins(void *arg) {
    // Only a register of this thread does.
    char *block = malloc(200);
    __atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST);
    for (;;) __asm__ volatile("" : "+r"(block));
    return arg;
}
static void *volatile kept;
__attribute__((noinline)) static void leak(size_t size) {
    kept = malloc(size);
    memset(kept, 0, size);
    kept = NULL;
}
int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    pthread_t thread;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&thread, NULL, i ? holds : spins, NULL) != 0) return 9;
    while (__atomic_load_n(&started, __ATOMIC_SEQ_CST) != 2) usleep(1000);
    if (strcmp(how, "leak") == 0) leak(77);
    if (strcmp(how, "twice") == 0) {
        leak(33);
        printf("%d\n", __lsan_do_recoverable_leak_check());
        leak(34);
        printf("%d\n", __lsan_do_recoverable_leak_check());
        fflush(stdout);
        _exit(0);
    }
    if (strcmp(how, "child") == 0) {
        int status;
        if (fork() == 0) {
            leak(55);
            exit(0);
        }
        wait(&status);
        printf("child %d\n", WEXITSTATUS(status));
    }
    puts("done");
    return 0;
}
C
gcc -g -O1 -fsanitize=address -pthread -o leaks leaks.c
export ASAN_OPTIONS=detect_leaks=1:symbolize=0
for how in none leak twice child; do
    ./leaks $how 2> said || echo "status $?"
    sed -E -e 's/0x[0-9a-f]+/ADDR/g' -e 's/==[0-9]+==/==N==/' -e 's/thread [0-9]+/thread N/' -e '/^ *#/d' said
done
ASAN_OPTIONS=detect_leaks=0 ./leaks leak
echo ok
