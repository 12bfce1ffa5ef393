// relive: sketch=yes
// A timer's descriptor that is told how often it has expired, as behind a checkpoint, where the kernel
// can do that.
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>

int main(void) {
    uint64_t ticks = 7, seen = 0;
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), other = open("/dev/null", 0);
    struct pollfd polled = {fd, POLLIN, 0};
    CHECK(fd >= 0 && poll(&polled, 1, 0) == 0);
    int set = ioctl(fd, _IOW('T', 0, uint64_t), &ticks);
    printf("set: %d\n", set == 0 ? 0 : errno);
    if (set == 0) {
        CHECK(poll(&polled, 1, 0) == 1 && read(fd, &seen, 8) == 8 && seen == 7);
        CHECK(ioctl(fd, _IOW('T', 0, uint64_t), NULL) == -1 && errno == EFAULT);
    }
    CHECK(ioctl(other, _IOW('T', 0, uint64_t), &ticks) == -1 && errno == ENOTTY);
    return ok();
}
