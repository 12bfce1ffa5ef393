// relive:
// Requests whose answer is a table of a size that stands in it: FIEMAP and FIDEDUPERANGE.
#include "check.h"
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

static union {
    struct fiemap map;
    struct file_dedupe_range same;
    char bytes[sizeof(struct fiemap) + 8 * sizeof(struct fiemap_extent)];
} request;

int main(void) {
    int file = open("file", O_CREAT | O_RDWR, 0600), copy = open("copy", O_CREAT | O_RDWR, 0600);
    static char data[65536];
    memset(data, 7, sizeof data);
    CHECK(write(file, data, sizeof data) == sizeof data && write(copy, data, sizeof data) == sizeof data);
    for (unsigned room = 0; room <= 8; room += 8) {
        memset(&request, 0xee, sizeof request);
        memset(&request, 0, sizeof request.map);
        request.map.fm_length = ~0ull, request.map.fm_extent_count = room;
        request.map.fm_flags = FIEMAP_FLAG_SYNC;
        if (ioctl(file, FS_IOC_FIEMAP, &request) != 0) {
            CHECK(errno == EOPNOTSUPP); // Not of every file system.
            continue;
        }
        CHECK(request.map.fm_mapped_extents > 0);
        if (room) CHECK(request.map.fm_extents[0].fe_logical == 0 && request.map.fm_extents[0].fe_length > 0);
        else CHECK(request.bytes[sizeof request.map] == (char)0xee);
    }
    memset(&request, 0, sizeof request);
    request.same.src_length = sizeof data, request.same.dest_count = 1;
    request.same.info[0].dest_fd = copy;
    if (ioctl(file, FIDEDUPERANGE, &request) == 0)
        CHECK(request.same.info[0].status <= 0 || request.same.info[0].status == FILE_DEDUPE_RANGE_DIFFERS);
    return ok();
}
