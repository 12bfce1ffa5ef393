// relive: link=pie
// Output that goes to standard output without passing through the program's memory, and by
// other names of it.
#include "check.h"
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

int main(void) {
    int fd = open("text", O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, "0123456789\n", 11) == 11);
    off_t offset = 5;
    CHECK(sendfile(1, fd, &offset, 100) == 6 && offset == 11);
    CHECK(lseek(fd, 8, SEEK_SET) == 8 && sendfile(1, fd, NULL, 3) == 3 && lseek(fd, 0, SEEK_CUR) == 11);
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], "spliced\n", 8) == 8);
    CHECK(splice(ends[0], NULL, 1, NULL, 100, 0) == 8);
    loff_t at = 3;
    CHECK(splice(fd, &at, ends[1], NULL, 8, 0) == 8 && at == 11);
    // Both have to be pipes; standard output is one here.
    struct iovec vector = {"vmspliced\n", 10};
    CHECK(tee(ends[0], 1, 8, 0) == 8 && splice(ends[0], NULL, 1, NULL, 8, 0) == 8);
    CHECK(vmsplice(1, &vector, 1, 0) == 10);
    CHECK(sendfile(1, 999, NULL, 3) == -1 && errno == EBADF);
    // Calls that the kernel refuses.
    off_t nowhere = 0;
    loff_t place = 0;
    CHECK(write(ends[1], "left", 4) == 4);
    CHECK(sendfile(1, ends[0], NULL, 3) == -1 && errno == EINVAL);
    CHECK(sendfile(1, ends[0], &nowhere, 3) == -1 && errno == ESPIPE);
    CHECK(splice(ends[0], &place, 1, NULL, 3, 0) == -1 && errno == ESPIPE);
    CHECK(splice(ends[0], NULL, 1, &place, 3, 0) == -1 && errno == ESPIPE);
    CHECK(splice(999, NULL, 1, NULL, 3, 0) == -1 && errno == EBADF);
    CHECK(copy_file_range(fd, NULL, 1, NULL, 3, 0) == -1 && errno == EINVAL);
    CHECK(tee(fd, 1, 3, 0) == -1 && errno == EINVAL);
    // A file that the kernel makes up can be read; since Linux 5.10 it is not moved.
    int made_up = open("/proc/self/status", O_RDONLY);
    ssize_t n = sendfile(1, made_up, NULL, 4);
    CHECK(made_up >= 0 && (n == 4 || errno == EINVAL));
    dprintf(1, "%zd bytes of /proc\n", n);
    const char *names[] = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/stderr"};
    for (int i = 0; i < 4; i++) {
        int other = open(names[i], O_WRONLY);
        CHECK(other >= 0 && dprintf(other, "%s\n", names[i]) > 0 && close(other) == 0);
    }
    return ok();
}
