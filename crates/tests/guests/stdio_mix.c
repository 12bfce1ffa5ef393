// relive: stdin="first line\nsecond\n" expect="second\n"
// Standard input from a pipe, output and error interleaved, buffered and not, and closed
// descriptors.
#include "check.h"

int main(void) {
    char line[64];
    CHECK(fgets(line, sizeof line, stdin));
    fprintf(stderr, "to stderr: %s", line);
    printf("to stdout: %s", line);
    fflush(stdout);
    CHECK(write(2, "raw\n", 4) == 4 && write(1, "raw\n", 4) == 4);
    CHECK(fgets(line, sizeof line, stdin) && !fgets(line + 32, 8, stdin));
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < 50; i++) {
        printf("%d ", i);
        fprintf(stderr, "%d ", i);
    }
    printf("\n%s", line);
    CHECK(close(0) == 0 && read(0, line, 1) == -1 && errno == EBADF);
    CHECK(close(2) == 0 && write(2, "x", 1) == -1 && errno == EBADF);
    CHECK(dup(1) == 0);
    return 0;
}
