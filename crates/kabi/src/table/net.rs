//! Sockets.

use crate::arg::{Arg, Dir};
use crate::dsl::*;
use crate::sub_table::SubTable;

/// An address that the kernel fills in; the length word behind that argument holds the room
/// before the call and the full length after it.
const fn name(length: u8) -> Arg {
    output(Deref32(length), Deref32(length))
}

/// The length word of [`name`].
const LENGTH: Arg = inout_of(structs::INT);

rows! {
    41 socket(Int, Int, Int) => fds(Creates);
    42 connect(Fd, input(arg(2)), Int) => blocks(Handler), connects(0);
    43 accept(Fd, name(2), LENGTH) => blocks(Handler), fds(Creates), accepts(0);
    44 sendto(Fd, input(arg(2)), Size, Flags, input(arg(5)), Int) => blocks(Handler), to(stream(0, 1));
    45 recvfrom(Fd, output(arg(2), Ret), Size, Flags, name(5), LENGTH) => blocks(Handler), from(stream(0, 1));
    46 sendmsg(Fd, Arg::Msghdr { dir: Dir::In }, Flags) => blocks(Handler), to(stream(0, 1));
    47 recvmsg(Fd, Arg::Msghdr { dir: Dir::Out }, Flags)
        => blocks(Handler), fds(Receives(1)), from(stream(0, 1));
    48 shutdown(Fd, Int);
    49 bind(Fd, input(arg(2)), Int);
    50 listen(Fd, Int);
    51 getsockname(Fd, name(2), LENGTH);
    52 getpeername(Fd, name(2), LENGTH);
    53 socketpair(Int, Int, Int, always(output_of(8))) => fds(CreatesPair(3));
    54 setsockopt(Fd, Int, Int, input(arg(4)), Int) => sub(SubTable::Sockopt);
    55 getsockopt(Fd, Int, Int, name(4), always(LENGTH)) => sub(SubTable::Sockopt),
        note("too little room for SO_PEERGROUPS is answered with the room it needs");
    288 accept4(Fd, name(2), LENGTH, Flags) => blocks(Handler), fds(Creates), accepts(0);
    299 recvmmsg(Fd, Arg::Mmsghdr { dir: Dir::Out, count: 2 }, Uint, Flags,
        inout_of(structs::TIMESPEC)) => blocks(Handler), fds(Receives(1)), from(stream(0, 1));
    307 sendmmsg(Fd, Arg::Mmsghdr { dir: Dir::In, count: 2 }, Uint, Flags) => blocks(Handler), to(stream(0, 1));
}
