// relive: link=pie,static
// fork: exit statuses, nested children, copied memory, pipes both ways, a child with threads,
// a parent with threads, buffered output written once.
#include "check.h"
#include <pthread.h>

static int value = 1;
static void *bump(void *arg) {
    __atomic_fetch_add((int *)arg, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void run_threads(void) {
    int count = 0;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK0(pthread_create(&threads[i], NULL, bump, &count));
    for (int i = 0; i < 3; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(count == 3);
}

static void *fork_in_thread(void *arg) {
    (void)arg;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(9);
    expect_exit(child, 9);
    return NULL;
}

int main(void) {
    for (int status = 0; status < 256; status += 51) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            value += status;
            CHECK(value == 1 + status);
            _exit(status);
        }
        expect_exit(child, status);
        CHECK(value == 1);
    }
    int down[2], up[2];
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(down[1]);
        close(up[0]);
        char buffer[64];
        ssize_t got;
        while ((got = read(down[0], buffer, sizeof buffer)) > 0) {
            for (ssize_t i = 0; i < got; i++) buffer[i] ^= 0x20;
            CHECK(write(up[1], buffer, (size_t)got) == got);
        }
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) {
            run_threads();
            CHECK(write(up[1], "!", 1) == 1);
            _exit(4);
        }
        expect_exit(grandchild, 4);
        _exit(5);
    }
    close(down[0]);
    close(up[1]);
    CHECK(write(down[1], "hELLO", 5) == 5 && close(down[1]) == 0);
    char text[16] = "";
    size_t have = 0;
    ssize_t got;
    while ((got = read(up[0], text + have, sizeof text - 1 - have)) > 0) have += (size_t)got;
    CHECK(strcmp(text, "Hello!") == 0);
    expect_exit(child, 5);
    run_threads();
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, fork_in_thread, NULL));
    CHECK0(pthread_join(thread, NULL));
    CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    return ok();
}
