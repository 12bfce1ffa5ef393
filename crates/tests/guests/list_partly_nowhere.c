// relive: link=pie
// Lists of buffers with a part where no process has memory: what comes before it is written and read.
#include "check.h"
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

static void *lists(void *unused) {
    (void)unused;
    char first[5] = {0}, last[5] = {0};
    int file = open("file", O_CREAT | O_TRUNC | O_RDWR, 0600);
    struct iovec list[3] = {{"before", 6}, {(void *)16, 4096}, {"behind", 6}};
    CHECK(writev(file, list, 3) == 6 && lseek(file, 0, SEEK_CUR) == 6);
    CHECK(writev(file, list + 1, 2) == -1 && errno == EFAULT);
    list[0] = (struct iovec){first, 4}, list[2] = (struct iovec){last, 4};
    CHECK(preadv(file, list, 3, 0) == 4 && strcmp(first, "befo") == 0 && last[0] == 0);
    CHECK(preadv(file, list + 1, 2, 0) == -1 && errno == EFAULT && last[0] == 0);
    close(file);
    return NULL;
}

int main(void) {
    lists(NULL);
    puts("ok");
}
