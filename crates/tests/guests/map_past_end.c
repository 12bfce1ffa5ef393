// relive: link=static,pie
// A private map that goes on behind its file's end, for a while: the pages there can be read by nobody.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

int main(void) {
    int fd = open("short", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, "content", 7) == 7);
    char *map = mmap(NULL, 0x8000, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(map != MAP_FAILED && strcmp(map, "content") == 0);
    map[1] = 'a';
    for (int i = 0; i < 60; i++) {
        struct timespec brief = {0, 1000000};
        CHECK0(nanosleep(&brief, NULL));
        map[2] = (char)i;
    }
    CHECK(map[0] == 'c' && map[1] == 'a' && map[2] == 59);
    return ok();
}
