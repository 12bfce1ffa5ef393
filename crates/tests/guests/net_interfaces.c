// relive:
// The list of network interfaces by SIOCGIFCONF: its size, all of it, and a part of it in a smaller buffer.
#include "check.h"
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifconf conf = {.ifc_len = 0, .ifc_buf = NULL};
    CHECK(fd >= 0 && ioctl(fd, SIOCGIFCONF, &conf) == 0 && conf.ifc_len >= 0);
    int all = conf.ifc_len;
    CHECK(all % (int)sizeof(struct ifreq) == 0);
    static struct ifreq list[64];
    conf.ifc_len = sizeof list;
    conf.ifc_req = list;
    CHECK(ioctl(fd, SIOCGIFCONF, &conf) == 0 && conf.ifc_len == all && conf.ifc_req == list);
    for (int i = 0; i < all / (int)sizeof *list; i++) {
        struct ifreq one = list[i];
        CHECK(list[i].ifr_name[0] && ioctl(fd, SIOCGIFFLAGS, &one) == 0);
        printf("%s %x %d\n", one.ifr_name, (unsigned)one.ifr_flags, list[i].ifr_addr.sa_family);
    }
    memset(list, 0x55, sizeof list);
    conf.ifc_len = sizeof *list + 3;
    int whole = all ? (int)sizeof *list : 0;
    CHECK(ioctl(fd, SIOCGIFCONF, &conf) == 0 && conf.ifc_len == whole);
    CHECK(((unsigned char *)list)[sizeof *list + 2] == 0x55);
    CHECK(ioctl(fd, SIOCGIFCONF, NULL) == -1 && errno == EFAULT);
    conf.ifc_len = -1;
    int negative = ioctl(fd, SIOCGIFCONF, &conf);
    printf("%d %d\n", negative, conf.ifc_len);
    return ok();
}
