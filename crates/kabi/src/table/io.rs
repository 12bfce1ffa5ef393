//! Reading, writing and moving data through descriptors, and the descriptors themselves.

use crate::arg::{Arg, Dir};
use crate::columns::FdEffect;
use crate::dsl::*;
use crate::sub::SubTable;

rows! {
    0 read(Fd, output(arg(2), Ret), Size) => blocks(Handler);
    1 write(Fd, input(arg(2)), Size) => blocks(Handler);
    3 close(Fd) => fds(Closes(0));
    8 lseek(Fd, Off, Int);
    16 ioctl(Fd, Uint, Select) => sub(SubTable::Ioctl);
    17 pread64(Fd, output(arg(2), Ret), Size, Off) => blocks(Handler);
    18 pwrite64(Fd, input(arg(2)), Size, Off) => blocks(Handler);
    19 readv(Fd, scatter(2), Size) => blocks(Handler);
    20 writev(Fd, gather(2), Size) => blocks(Handler);
    22 pipe(output_of(8)) => fds(CreatesPair(0));
    32 dup(Fd) => fds(Creates);
    33 dup2(Fd, Fd) => fds(FdEffect::Special);
    40 sendfile(Fd, Fd, always(inout_of(8)), Size) => blocks(Handler);
    72 fcntl(Fd, Int, Select) => sub(SubTable::Fcntl);
    73 flock(Fd, Int) => blocks(Handler);
    74 fsync(Fd);
    75 fdatasync(Fd);
    77 ftruncate(Fd, Off);
    162 sync();
    187 readahead(Fd, Off, Size);
    221 fadvise64(Fd, Off, Size, Int);
    275 splice(Fd, inout_of(8), Fd, inout_of(8), Size, Flags) => blocks(Handler);
    276 tee(Fd, Fd, Size, Flags) => blocks(Handler);
    277 sync_file_range(Fd, Off, Off, Flags);
    278 vmsplice(Fd, Arg::Iovec { dir: Dir::InOut, count: 2 }, Size, Flags)
        => blocks(Handler), note("the direction depends on the end of the pipe");
    285 fallocate(Fd, Int, Off, Off);
    292 dup3(Fd, Fd, Flags) => fds(FdEffect::Special);
    293 pipe2(output_of(8), Flags) => fds(CreatesPair(0));
    295 preadv(Fd, scatter(2), Size, Off, Off) => blocks(Handler);
    296 pwritev(Fd, gather(2), Size, Off, Off) => blocks(Handler);
    306 syncfs(Fd);
    319 memfd_create(Str, Flags) => fds(Creates);
    326 copy_file_range(Fd, inout_of(8), Fd, inout_of(8), Size, Flags) => blocks(Handler);
    327 preadv2(Fd, scatter(2), Size, Off, Off, Flags) => blocks(Handler);
    328 pwritev2(Fd, gather(2), Size, Off, Off, Flags) => blocks(Handler);
    436 close_range(Uint, Uint, Flags) => fds(FdEffect::Special);
    451 cachestat(Fd, input_of(structs::CACHESTAT_RANGE), output_of(structs::CACHESTAT), Flags);
}
