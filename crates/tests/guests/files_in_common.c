// relive: sketch=yes parallel=refused
// A child with memory of its own and its parent's table of descriptors (clone(2) with CLONE_FILES alone): both execute code
// that is new to them, and change code that is not.
#include "check.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

typedef int function(int);
#define ONE(n) __attribute__((noinline)) static int f##n(int x) { return x * 7 + n; }
#define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5)
#define NAMES(n) f##n##0, f##n##1, f##n##2, f##n##3, f##n##4, f##n##5, f##n##6, f##n##7, f##n##8, f##n##9
static function *volatile all[] = {NAMES(1), NAMES(2), NAMES(3), NAMES(4), NAMES(5)};

static void call_some(int from) {
    for (int i = from; i < from + 5; i++) CHECK(all[i](i) == i * 7 + i + 10);
}

// Much that has not been executed before.
static void much(int n) {
    char text[200];
    char *end;
    CHECK(snprintf(text, sizeof text, "%e %10.3f %a %lld %ls", n * 1.5, n * 2.5, n * 3.5, (long long)n, L"wide") > 20);
    CHECK(strtod(text, &end) == n * 1.5 && *end == ' ');
    CHECK(strtol("7f", &end, 16) == 0x7f && strstr(text, "wide") != NULL && strpbrk(text, "xyz") != NULL);
    time_t then = 1000000 * n;
    struct tm *broken = gmtime(&then);
    CHECK(broken != NULL && strftime(text, sizeof text, "%A %d %B %Y", broken) > 10);
}

static unsigned char code[4096] __attribute__((aligned(4096)));

// mov eax, n; ret
static void put(unsigned char n) {
    const unsigned char bytes[] = {0xb8, n, 0, 0, 0, 0xc3};
    memcpy(code, bytes, sizeof bytes);
}

static int call(void) { return ((int (*)(void))code)(); }

int main(void) {
    int to_child[2], to_parent[2];
    char byte = 0;
    CHECK(mprotect(code, sizeof code, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
    for (int round = 0; round < 5; round++) {
        put((unsigned char)round);
        CHECK(call() == round);
        long child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
        CHECK(child >= 0);
        if (child == 0) {
            call_some(10 * round);
            put(100);
            CHECK(call() == 100);
            CHECK(write(to_parent[1], &byte, 1) == 1 && read(to_child[0], &byte, 1) == 1);
            call_some(10 * round + 5);
            CHECK(call() == 100);
            put(101);
            // Its descriptors are the parent's too.
            int opened = dup(1);
            CHECK(opened > 2);
            _exit(call() == 101 ? opened : 0);
        }
        CHECK(read(to_parent[0], &byte, 1) == 1);
        much(round + 1);
        call_some(10 * round + 5);
        for (int n = 50; n < 60; n++) {
            put((unsigned char)n);
            CHECK(call() == n);
        }
        CHECK(write(to_child[1], &byte, 1) == 1);
        int status;
        CHECK(waitpid((pid_t)child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) > 2);
        CHECK(close(WEXITSTATUS(status)) == 0);
        CHECK(call() == 59);
    }
    return ok();
}
