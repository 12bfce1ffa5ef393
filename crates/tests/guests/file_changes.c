// relive: link=pie
// Files that change under their maps by other ways than write: cut, grown, punched, copied
// into, opened anew; and maps of files that have none.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

enum { PAGE = 4096, SIZE = 3 * PAGE };

static void shared(int fd, const char *name) {
    CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0);
    volatile char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    volatile char *reader = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 2 * PAGE);
    CHECK(p != MAP_FAILED && reader != MAP_FAILED);
    memset((void *)p, 'a', SIZE);
    CHECK(ftruncate(fd, PAGE + 10) == 0 && ftruncate(fd, SIZE) == 0);
    printf("cut: %d %d %d %d\n", p[0], p[PAGE + 9], p[PAGE + 10], reader[5]);
    memset((void *)p, 'b', SIZE);
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 2 * PAGE) == 0)
        printf("punched: %d %d %d %d\n", p[99], p[100], reader[99], reader[100]);

    int from = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(from >= 0 && write(from, "0123456789", 10) == 10);
    loff_t in = 2, out = 2 * PAGE;
    if (copy_file_range(from, &in, fd, &out, 5, 0) == 5)
        printf("copied: %c %c\n", p[2 * PAGE], reader[4]);
    off_t start = 1;
    CHECK(lseek(fd, 50, SEEK_SET) == 50 && sendfile(fd, from, &start, 4) == 4);
    printf("sent: %c %c %d\n", p[50], p[53], p[54]);
    int ends[2];
    loff_t at = 2 * PAGE + 1;
    CHECK(pipe(ends) == 0 && write(ends[1], "xyz", 3) == 3);
    CHECK(splice(ends[0], NULL, fd, &at, 3, 0) == 3);
    printf("spliced: %c %c\n", reader[1], p[2 * PAGE + 3]);
    close(ends[0]);
    close(ends[1]);
    close(from);
    close(fd);
}

static void opened_anew(void) {
    int fd = open("anew", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, "content", 7) == 7);
    volatile char *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    int again = open("anew", O_RDWR | O_TRUNC);
    CHECK(p != MAP_FAILED && again >= 0 && write(again, "\0\0ne", 4) == 4);
    printf("anew: %d %c %d\n", p[0], p[3], p[5]);
}

static void no_maps(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    int fds[] = { ends[0], open(".", O_RDONLY), open("/proc/self/status", O_RDONLY),
                  open("/dev/null", O_RDWR), open("anew", O_WRONLY), -1 };
    for (int i = 0; i < 6; i++)
        printf("%d ", mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fds[i], 0) == MAP_FAILED ? errno : 0);
    puts("");
}

int main(void) {
    shared(open("file", O_RDWR | O_CREAT | O_TRUNC, 0600), "from");
    shared(memfd_create("memory", 0), "from");
    opened_anew();
    no_maps();
    puts("ok");
    return 0;
}
