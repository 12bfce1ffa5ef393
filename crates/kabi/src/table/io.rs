//! Reading, writing and moving data through descriptors, and the descriptors themselves.

use crate::arg::{Arg, Dir};
use crate::dsl::*;
use crate::sub_table::SubTable;

rows! {
    0 read(Fd, output(arg(2), Ret), Size) => blocks(Handler), from(file(0, 1, Position)), strict();
    1 write(Fd, input(arg(2)), Size) => blocks(Handler), to(file(0, 1, Position)), strict();
    3 close(Fd) => fds(Closes(0));
    8 lseek(Fd, Off, Int);
    16 ioctl(Fd, Uint, Select) => sub(SubTable::Ioctl);
    17 pread64(Fd, output(arg(2), Ret), Size, Off) => blocks(Handler), from(file(0, 1, Offset(3)));
    18 pwrite64(Fd, input(arg(2)), Size, Off) => blocks(Handler), to(file(0, 1, Offset(3)));
    19 readv(Fd, scatter(2), Size) => blocks(Handler), from(file(0, 1, Position));
    20 writev(Fd, gather(2), Size) => blocks(Handler), to(file(0, 1, Position));
    22 pipe(output_of(8)) => fds(CreatesPair(0));
    32 dup(Fd) => fds(Copies(0));
    33 dup2(Fd, Fd) => fds(Copies(0));
    40 sendfile(Fd, Fd, always(inout_of(8)), Size)
        => blocks(Handler), from(end(1, Pointer(2))), to(end(0, Position)),
        moves(FromFile { len: 3, to_file: false });
    72 fcntl(Fd, Int, Select) => sub(SubTable::Fcntl);
    73 flock(Fd, Int) => blocks(Handler);
    74 fsync(Fd);
    75 fdatasync(Fd);
    77 ftruncate(Fd, Off) => changes(ChangesSize(0));
    162 sync();
    187 readahead(Fd, Off, Size);
    221 fadvise64(Fd, Off, Size, Int);
    275 splice(Fd, inout_of(8), Fd, inout_of(8), Size, Flags)
        => blocks(Handler), from(end(0, Pointer(1))), to(end(2, Pointer(3))),
        moves(ByPipe { len: 4, flags: 5 });
    276 tee(Fd, Fd, Size, Flags) => blocks(Handler), from(end(0, Stream)), to(end(1, Stream)),
        moves(Tees { len: 2, flags: 3 });
    277 sync_file_range(Fd, Off, Off, Flags);
    278 vmsplice(Fd, Arg::Iovec { dir: Dir::InOut, count: 2 }, Size, Flags)
        => blocks(Handler), from(stream(0, 1)), to(stream(0, 1)),
        note("the direction depends on the end of the pipe");
    285 fallocate(Fd, Int, Off, Off) => changes(Space(0));
    292 dup3(Fd, Fd, Flags) => fds(Copies(0));
    293 pipe2(output_of(8), Flags) => fds(CreatesPair(0));
    295 preadv(Fd, scatter(2), Size, Off, Off) => blocks(Handler), from(file(0, 1, Offset(3)));
    296 pwritev(Fd, gather(2), Size, Off, Off) => blocks(Handler), to(file(0, 1, Offset(3)));
    306 syncfs(Fd);
    319 memfd_create(Str, Flags) => fds(Creates);
    326 copy_file_range(Fd, inout_of(8), Fd, inout_of(8), Size, Flags)
        => blocks(Handler), from(end(0, Pointer(1))), to(end(2, Pointer(3))),
        moves(FromFile { len: 4, to_file: true });
    327 preadv2(Fd, scatter(2), Size, Off, Off, Flags)
        => blocks(Handler), from(file(0, 1, Flagged { offset: 3, flags: 5 }));
    328 pwritev2(Fd, gather(2), Size, Off, Off, Flags)
        => blocks(Handler), to(file(0, 1, Flagged { offset: 3, flags: 5 }));
    436 close_range(Uint, Uint, Flags) => fds(ClosesRange);
    451 cachestat(Fd, input_of(structs::CACHESTAT_RANGE), output_of(structs::CACHESTAT), Flags);
}
