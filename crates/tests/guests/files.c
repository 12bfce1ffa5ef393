// relive: link=pie,static sketch=yes
// Files in the working folder: every way to read, write, name and list them.
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

int main(void) {
    umask(022);
    CHECK(umask(027) == 022);
    int fd = open("one", O_RDWR | O_CREAT | O_EXCL, 0666);
    struct stat st;
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0640 && st.st_size == 0);
    CHECK(open("one", O_RDWR | O_CREAT | O_EXCL, 0666) == -1 && errno == EEXIST);
    CHECK(write(fd, "0123456789", 10) == 10 && pwrite(fd, "AB", 2, 3) == 2);
    char a[5], b[20];
    struct iovec parts[] = {{a, 5}, {b, 20}};
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && readv(fd, parts, 2) == 10);
    CHECK(memcmp(a, "012AB", 5) == 0 && memcmp(b, "56789", 5) == 0);
    CHECK(preadv(fd, parts, 1, 5) == 5 && memcmp(a, "56789", 5) == 0);
    struct iovec out[] = {{"xyz", 3}, {"", 0}, {"wvu", 3}};
    CHECK(lseek(fd, 100, SEEK_SET) == 100 && writev(fd, out, 3) == 6 && pwritev(fd, out, 1, 200) == 3);
    CHECK(lseek(fd, 0, SEEK_END) == 203 && lseek(fd, -1, SEEK_SET) == -1 && errno == EINVAL);
    CHECK(pread(fd, b, 4, 98) == 4 && memcmp(b, "\0\0xy", 4) == 0 && read(fd, b, 1) == 0);
    CHECK(ftruncate(fd, 5) == 0 && stat("one", &st) == 0 && st.st_size == 5 && S_ISREG(st.st_mode));
    CHECK(fallocate(fd, 0, 0, 8192) == 0 || errno == EOPNOTSUPP);
    CHECK(ftruncate(fd, 5) == 0 && fsync(fd) == 0 && fdatasync(fd) == 0);
    int copy = dup(fd), high = fcntl(fd, F_DUPFD_CLOEXEC, 50);
    CHECK(copy >= 0 && high >= 50 && (fcntl(high, F_GETFD) & FD_CLOEXEC));
    CHECK(lseek(copy, 2, SEEK_SET) == 2 && lseek(fd, 0, SEEK_CUR) == 2);
    CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR && fcntl(fd, F_SETFL, O_APPEND) == 0);
    CHECK(write(fd, "!", 1) == 1 && fstat(fd, &st) == 0 && st.st_size == 6);
    CHECK(close(copy) == 0 && close(copy) == -1 && errno == EBADF && close(high) == 0);

    CHECK(mkdir("dir", 0700) == 0 && mkdir("dir", 0700) == -1 && errno == EEXIST);
    CHECK(link("one", "dir/two") == 0 && fstat(fd, &st) == 0 && st.st_nlink == 2);
    CHECK(symlink("dir/two", "soft") == 0 && readlink("soft", b, sizeof b) == 7 && memcmp(b, "dir/two", 7) == 0);
    CHECK(lstat("soft", &st) == 0 && S_ISLNK(st.st_mode) && stat("soft", &st) == 0 && S_ISREG(st.st_mode));
    CHECK(rename("dir/two", "dir/three") == 0 && access("soft", F_OK) == -1 && errno == ENOENT);
    CHECK(symlink("loop", "loop") == 0 && open("loop", O_RDONLY) == -1 && errno == ELOOP);
    int dir = open("dir", O_RDONLY | O_DIRECTORY);
    CHECK(dir >= 0 && openat(dir, "three", O_RDONLY) >= 0 && faccessat(dir, "three", R_OK, 0) == 0);
    CHECK(fstatat(dir, "three", &st, 0) == 0 && st.st_size == 6 && rmdir("dir") == -1 && errno == ENOTEMPTY);
    struct timespec times[] = {{1000, 5}, {2000, 7}};
    CHECK(utimensat(dir, "three", times, 0) == 0 && stat("dir/three", &st) == 0);
    CHECK(st.st_mtim.tv_sec == 2000 && st.st_mtim.tv_nsec == 7 && st.st_atim.tv_sec == 1000);
    struct statx sx;
    CHECK(statx(dir, "three", 0, STATX_SIZE | STATX_MTIME, &sx) == 0 && sx.stx_size == 6 && sx.stx_mtime.tv_sec == 2000);
    CHECK(chmod("dir/three", 0400) == 0 && stat("dir/three", &st) == 0 && (st.st_mode & 07777) == 0400);
    for (int i = 0; i < 300; i++) {
        char name[32];
        sprintf(name, "dir/entry-%03d", i);
        CHECK(close(open(name, O_WRONLY | O_CREAT, 0600)) == 0);
    }
    struct dirent **list;
    int n = scandir("dir", &list, NULL, by_name);
    CHECK(n == 303 && strcmp(list[2]->d_name, "entry-000") == 0 && strcmp(list[302]->d_name, "three") == 0);
    DIR *stream = opendir("dir");
    int seen = 0;
    while (readdir(stream)) seen++;
    rewinddir(stream);
    CHECK(seen == 303 && readdir(stream) && closedir(stream) == 0);
    for (int i = 0; i < 300; i++) {
        char name[32];
        sprintf(name, "entry-%03d", i);
        CHECK(unlinkat(dir, name, 0) == 0);
    }
    CHECK(unlink("dir/three") == 0 && unlink("soft") == 0 && unlink("loop") == 0 && rmdir("dir") == 0);
    char here[4096], folder[4096];
    CHECK(getcwd(here, sizeof here) && mkdir("in", 0700) == 0 && chdir("in") == 0 && getcwd(folder, sizeof folder));
    CHECK(strcmp(folder + strlen(here), "/in") == 0 && chdir("..") == 0 && rmdir("in") == 0);
    struct statfs fs;
    CHECK(statfs(".", &fs) == 0 && fs.f_bsize > 0 && unlink("one") == 0 && fstat(fd, &st) == 0 && st.st_nlink == 0);
    FILE *file = fopen("text", "w+");
    for (int i = 0; i < 5000; i++) CHECK(fprintf(file, "line %d\n", i) > 0);
    CHECK(fseek(file, 0, SEEK_SET) == 0);
    int number, lines = 0;
    while (fscanf(file, "line %d\n", &number) == 1) CHECK(number == lines++);
    CHECK(lines == 5000 && fclose(file) == 0 && remove("text") == 0);
    return ok();
}
