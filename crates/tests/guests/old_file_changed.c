// relive: threads=yes sketch=yes parallel=refused
// A file that has been the same for hours is mapped shared for reading, and is changed then: by a call of the process
// itself, beside a thread that reads it, and by a child. All maps show each change.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

static const volatile char *map;
static int to, from, seen[2];

static void *read_on(void *arg) {
    char word;
    while (read(from, &word, 1) == 1) CHECK(map[0] == word && write(seen[1], &word, 1) == 1);
    return arg;
}

static void change(int fd, char to_what) {
    CHECK(pwrite(fd, &to_what, 1, 0) == 1 && map[0] == to_what);
}

int main(void) {
    int ends[2], fd = open("old", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, "abc", 3) == 3 && pipe(ends) == 0 && pipe(seen) == 0);
    struct timespec past[2] = {{1000000000, 0}, {1000000000, 0}};
    CHECK(futimens(fd, past) == 0);
    int reads = open("old", O_RDONLY);
    map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, reads, 0);
    CHECK(map != MAP_FAILED && map[0] == 'a' && map[2] == 'c');
    from = ends[0], to = ends[1];
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, read_on, NULL));
    char word;
    CHECK(write(to, "a", 1) == 1 && read(seen[0], &word, 1) == 1);
    change(fd, 'x');
    CHECK(write(to, "x", 1) == 1 && close(to) == 0);
    CHECK0(pthread_join(thread, NULL));
    pid_t child = fork();
    if (child == 0) {
        change(fd, 'y');
        _exit(map[1] == 'b' ? 5 : 9);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    CHECK(map[0] == 'y' && ftruncate(fd, 1) == 0 && map[2] == 0);
    printf("%c\n", map[0]);
    return ok();
}
