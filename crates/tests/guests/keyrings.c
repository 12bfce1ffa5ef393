// relive:
// Keys and keyrings: made, found, described, read, replaced and dropped, in the process and over fork. A kernel
// without them refuses all of it, natively too.
#include "check.h"
#include <linux/keyctl.h>
#include <sys/syscall.h>

static long ctl(int operation, long a, long b, long c, long d) {
    return syscall(SYS_keyctl, operation, a, b, c, d);
}

static long text(int operation, long key, char *buffer, size_t size) {
    return ctl(operation, key, (long)buffer, (long)size, 0);
}

int main(void) {
    char buffer[64] = {0};
    long key = syscall(SYS_add_key, "user", "name", "content", 7, KEY_SPEC_PROCESS_KEYRING);
    if (key == -1) {
        printf("no keys: %d\n", errno);
        return ok();
    }
    CHECK(text(KEYCTL_READ, key, buffer, sizeof buffer) == 7 && memcmp(buffer, "content", 7) == 0);
    CHECK(text(KEYCTL_READ, key, NULL, 0) == 7);
    CHECK(text(KEYCTL_DESCRIBE, key, buffer, sizeof buffer) > 0 && strncmp(buffer, "user;", 5) == 0);
    CHECK(text(KEYCTL_DESCRIBE, key, buffer, 3) > 3);
    CHECK(ctl(KEYCTL_SEARCH, KEY_SPEC_PROCESS_KEYRING, (long)"user", (long)"name", 0) == key);
    CHECK(syscall(SYS_request_key, "user", "name", NULL, 0) == key);
    CHECK(ctl(KEYCTL_UPDATE, key, (long)"other", 5, 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        // A child has a keyring of its own.
        CHECK(ctl(KEYCTL_SEARCH, KEY_SPEC_PROCESS_KEYRING, (long)"user", (long)"name", 0) == -1 && errno == ENOKEY);
        _exit(0);
    }
    expect_exit(child, 0);
    memset(buffer, 0, sizeof buffer);
    CHECK(text(KEYCTL_READ, key, buffer, 2) == 5);
    CHECK(text(KEYCTL_READ, key, buffer, sizeof buffer) == 5 && strcmp(buffer, "other") == 0);
    CHECK(ctl(KEYCTL_UNLINK, key, KEY_SPEC_PROCESS_KEYRING, 0, 0) == 0);
    CHECK(ctl(KEYCTL_UNLINK, key, KEY_SPEC_PROCESS_KEYRING, 0, 0) == -1);
    CHECK(ctl(9999, 0, 0, 0, 0) == -1 && errno == EOPNOTSUPP);
    CHECK(ctl(KEYCTL_READ, 0x7fffffff, (long)buffer, 1, 0) == -1 && errno == ENOKEY);
    return ok();
}
