// Maps a log shared, for the first time after many calls, and looks at it in rounds between which it grows.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void) {
    for (int i = 0; i < 100; i++) getppid();
    for (int i = 0; i < 40; i++) {
        int fd = open("shared_late.log", O_RDWR | O_CREAT | (i == 0 ? O_TRUNC : 0) | O_APPEND, 0600);
        if (fd < 0 || write(fd, "line\n", 5) != 5) return 1;
        const char *log = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        if (log == MAP_FAILED || close(fd) != 0) return 1;
        // As many calls as there are lines: a replay that sees another log leaves the recording.
        for (size_t n = strlen(log); n >= 5; n -= 5) getppid();
        if (munmap((void *)log, 4096) != 0) return 1;
    }
    return 0;
}
