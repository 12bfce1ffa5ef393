// relive: threads=yes sketch=yes parallel=refused
// A process maps a file that has been the same for hours for reading, alone with it; another one changes that file.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void) {
    int begun[2], over[2], fd = open("old", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, "abc", 3) == 3 && pipe(begun) == 0 && pipe(over) == 0);
    struct timespec past[2] = {{1000000000, 0}, {1000000000, 0}};
    CHECK(futimens(fd, past) == 0);
    pid_t child = fork();
    if (child == 0) {
        char word = 0;
        const volatile char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, open("old", O_RDONLY), 0);
        CHECK(map != MAP_FAILED && map[0] == 'a' && write(begun[1], "", 1) == 1);
        CHECK(close(over[1]) == 0 && read(over[0], &word, 1) == 1);
        _exit(map[0] == word ? 5 : 9);
    }
    char word;
    int status;
    CHECK(read(begun[0], &word, 1) == 1 && pwrite(fd, "x", 1, 0) == 1 && write(over[1], "x", 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    return ok();
}
