// relive:
// System calls that are odd or not there: numbers with rubbish in their upper halves, unknown numbers,
// unknown requests, and requests of devices; settings of the memory map.
#include "check.h"
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/kd.h>
#include <linux/sockios.h>
#include <linux/vt.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define FAILS(wanted, call) CHECK((call) == -1 && errno == (wanted))

int main(void) {
    // Since Linux 5.13 the lower half counts.
    long pid = syscall(0x700000000 + SYS_getpid);
    CHECK(pid == getpid() || (pid == -1 && errno == ENOSYS));
    FAILS(ENOSYS, syscall(511));
    FAILS(ENOSYS, syscall(1023));
    FAILS(ENOSYS, syscall(400));
    FAILS(ENOSYS, syscall(0x7fffffff));
    FAILS(ENOSYS, syscall(-1));
    char buffer[256];
    int null = open("/dev/null", O_RDWR), place = open("/", O_PATH);
    CHECK(null >= 0 && place >= 0);
    FAILS(EBADF, ioctl(999, 0x12345678, buffer));
    FAILS(EBADF, ioctl(place, 0x12345678, buffer));
    FAILS(ENOTTY, ioctl(null, 0x12345678, buffer));
    FAILS(EBADF, syscall(SYS_fcntl, 999, 4321));
    FAILS(EBADF, syscall(SYS_fcntl, place, 4321));
    FAILS(EINVAL, syscall(SYS_fcntl, null, 4321));
    FAILS(EINVAL, prctl(4321, 0, 0, 0, 0));
    FAILS(ENOTTY, ioctl(null, KDGKBTYPE, buffer));
    FAILS(ENOTTY, ioctl(null, VT_GETSTATE, buffer));
    struct ifreq request;
    memset(&request, 0, sizeof request);
    int tunnel = open("/dev/net/tun", O_RDWR);
    unsigned features = 0;
    if (tunnel >= 0 && ioctl(tunnel, TUNGETFEATURES, &features) == 0) {
        CHECK(features & IFF_TUN);
        FAILS(EBADFD, ioctl(tunnel, TUNGETIFF, &request));
        request.ifr_flags = 0;
        CHECK(ioctl(tunnel, TUNSETIFF, &request) == -1);
    }
    int inet = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(inet >= 0);
    // There is none of this name.
    CHECK(ioctl(inet, SIOCBRDELBR, "nosuchbridge0") == -1 && errno != ENOTTY);
    FAILS(EINVAL, prctl(PR_SET_MM, PR_SET_MM_ARG_START, 0, 0, 1));
    FAILS(EINVAL, prctl(PR_SET_MM, PR_SET_MM_BRK, 0, 1, 0));
    unsigned size = 0;
    if (prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0) == 0) {
        CHECK(size == 104);
        FAILS(EFAULT, prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, 0, 0, 0));
        FAILS(EINVAL, prctl(PR_SET_MM, PR_SET_MM_MAP, buffer, 8, 0));
    }
    CHECK(prctl(PR_SET_MM, PR_SET_MM_ARG_START, 0, 0, 0) == -1 && (errno == EPERM || errno == EINVAL));
    int filter = open("/proc/self/coredump_filter", O_RDWR);
    if (filter >= 0) {
        CHECK(pwrite(filter, "0x7f\n", 5, 0) == 5 && pread(filter, buffer, 8, 0) == 8);
        CHECK(memcmp(buffer, "0000007f", 8) == 0);
        FAILS(EINVAL, write(filter, "xyz", 3));
    }
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0);
    FAILS(EINVAL, prctl(PR_SET_DUMPABLE, 2));
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0 && prctl(PR_GET_DUMPABLE) == 1);
    return ok();
}
