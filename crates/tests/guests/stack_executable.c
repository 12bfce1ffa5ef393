// relive: link=pie,static flags="-Wl,-z,execstack -Wno-pedantic"
// Code on the stack, as of functions within functions whose address is taken: the program's header asks for
// a stack that can be executed, and threads get one too.
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

__attribute__((noinline)) static int call(int (*function)(int), int with) { return function(with); }

__attribute__((noinline)) static int adds(int n) {
    int sum = 0;
    int add(int x) { return sum += x * n; }
    for (int i = 0; i < 10; i++) call(add, i);
    return sum;
}

static void *thread(void *unused) {
    (void)unused;
    for (int i = 0; i < 50; i++) CHECK(adds(i) == 45 * i);
    return NULL;
}

int main(void) {
    for (int i = 0; i < 50; i++) CHECK(adds(i) == 45 * i);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0 && pthread_join(other, NULL) == 0);
    pid_t child = fork();
    if (child == 0) _exit(adds(1));
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 45 << 8);
    puts("ok");
}
