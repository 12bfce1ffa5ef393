// relive: link=pie threads=yes sketch=yes
// vmsplice gives a pipe pages of the program's memory, which nobody writes to before they are read: another thread is there meanwhile,
// and other calls with as many bytes.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>

enum { WORDS = 10000 };
static unsigned given[WORDS], got[WORDS], zeros[WORDS];
static int ends[2];

static void *waits(void *unused) {
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    return unused;
}

int main(void) {
    int given_to[2], other[2];
    pthread_t thread;
    CHECK(pipe(ends) == 0 && pipe(given_to) == 0 && pipe(other) == 0);
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    for (unsigned i = 0; i < WORDS; i++) given[i] = i + 1;
    struct iovec pages = {given, sizeof given};
    CHECK(vmsplice(given_to[1], &pages, 1, 0) == sizeof given);
    for (int i = 0; i < 20; i++) {
        CHECK(write(other[1], zeros, sizeof zeros) == sizeof zeros);
        CHECK(read(other[0], zeros, sizeof zeros) == sizeof zeros);
    }
    for (size_t have = 0; have < sizeof got;) {
        ssize_t more = read(given_to[0], (char *)got + have, sizeof got - have);
        CHECK(more > 0);
        have += more;
    }
    CHECK(memcmp(given, got, sizeof got) == 0);
    CHECK(write(ends[1], "x", 1) == 1);
    pthread_join(thread, NULL);
    puts("ok");
    return 0;
}
