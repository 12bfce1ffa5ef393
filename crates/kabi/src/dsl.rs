//! The notation of the tables: short constructors, and the `rows!` and `subs!` macros that turn one
//! line into one row. For the table files only.

pub(crate) use crate::arg::Arg::{
    Addr, DirFd, Fd, Flags, Hex, Int, Mode, Off, Pid, Select, Sig, Size, Str, StrVec, TempMaskPair,
    Uint, Unused,
};
pub(crate) use crate::arg::Len::{
    ArgPlus, ArgTimes, Deref32, Fixed, Ret, RetPlus, RetTimes, Special,
};
pub(crate) use crate::arg::Special::{
    CapData, Extents, ExtentsFound, FdSet, FileHandle, MountId, NodeMask, Pages, PollFds,
    SizeInside, Targets,
};
use crate::arg::{Arg, Dir, Len, Written};
pub(crate) use crate::columns::At::{Flagged, Offset, Pointer, Position, Stream};
pub(crate) use crate::columns::Changes::{All, Size as ChangesSize, SizeOfNamed, Space};
pub(crate) use crate::columns::FdEffect::{
    Closes, ClosesRange, Copies, Creates, CreatesAt, CreatesPair, Finds, Receives, Table,
};
pub(crate) use crate::columns::Holds::{Compared, OfPidfd, Targets as HoldsTargets, Word};
pub(crate) use crate::columns::Makes::{Flags as MakesFlags, FlagsBehind, Process};
pub(crate) use crate::columns::Moves::{ByPipe, FromFile, Tees};
pub(crate) use crate::columns::OpenFlags::{Behind, Create, In};
pub(crate) use crate::columns::Reports::{Info, Status};
pub(crate) use crate::columns::Restart::{Futex, Handler, Never as NotRestarted, NoHandler, Timed};
use crate::columns::{At, End, FdEffect, OpenFlags, Opening};
pub(crate) use crate::errno::*;
pub(crate) use crate::structs;

/// As many bytes as that argument says.
pub(crate) const fn arg(index: u8) -> Len {
    Len::Arg(index)
}

/// A buffer that the kernel reads.
pub(crate) const fn input(len: Len) -> Arg {
    let (dir, out, when) = (Dir::In, Len::Fixed(0), Written::Success);
    Arg::Buf {
        dir,
        cap: len,
        out,
        when,
    }
}

/// A structure of this many bytes that the kernel reads.
pub(crate) const fn input_of(bytes: u32) -> Arg {
    input(Len::Fixed(bytes))
}

/// A buffer that the kernel writes: room for `cap`, of which `out` is used.
pub(crate) const fn output(cap: Len, out: Len) -> Arg {
    Arg::Buf {
        dir: Dir::Out,
        cap,
        out,
        when: Written::Success,
    }
}

/// A structure of this many bytes that the kernel writes.
pub(crate) const fn output_of(bytes: u32) -> Arg {
    output(Len::Fixed(bytes), Len::Fixed(bytes))
}

/// A buffer that the kernel reads and writes back.
pub(crate) const fn inout(len: Len) -> Arg {
    Arg::Buf {
        dir: Dir::InOut,
        cap: len,
        out: len,
        when: Written::Success,
    }
}

/// The same, of which `out` is written back.
pub(crate) const fn inout_part(cap: Len, out: Len) -> Arg {
    Arg::Buf {
        dir: Dir::InOut,
        cap,
        out,
        when: Written::Success,
    }
}

/// A structure of this many bytes that the kernel reads and writes back.
pub(crate) const fn inout_of(bytes: u32) -> Arg {
    inout(Len::Fixed(bytes))
}

/// The same buffer, written for any result.
pub(crate) const fn always(arg: Arg) -> Arg {
    written(arg, Written::Always)
}

/// The same buffer, written only if the call fails.
pub(crate) const fn on_failure(arg: Arg) -> Arg {
    written(arg, Written::Failure)
}

const fn written(arg: Arg, when: Written) -> Arg {
    match arg {
        Arg::Buf { dir, cap, out, .. } => Arg::Buf {
            dir,
            cap,
            out,
            when,
        },
        _ => panic!("only a buffer is written"),
    }
}

/// Buffers that the kernel reads, in an `iovec` array.
pub(crate) const fn gather(count: u8) -> Arg {
    Arg::Iovec {
        dir: Dir::In,
        count,
    }
}

/// Buffers that the kernel writes, in an `iovec` array.
pub(crate) const fn scatter(count: u8) -> Arg {
    Arg::Iovec {
        dir: Dir::Out,
        count,
    }
}

/// An end of a transfer between a descriptor and the memory of an argument.
pub(crate) const fn file(fd: u8, memory: u8, at: At) -> End {
    let memory = Some(memory);
    End { fd, at, memory }
}

/// The same for a stream: a pipe or a socket.
pub(crate) const fn stream(fd: u8, memory: u8) -> End {
    file(fd, memory, At::Stream)
}

/// An end of a transfer between two descriptors.
pub(crate) const fn end(fd: u8, at: At) -> End {
    let memory = None;
    End { fd, at, memory }
}

/// A new descriptor of the file with the path in that argument.
pub(crate) const fn opens(path: u8, flags: OpenFlags) -> FdEffect {
    let path = Some(path);
    FdEffect::Opens(Opening { path, flags })
}

/// The same of a file that has no path.
pub(crate) const fn opens_unnamed(flags: OpenFlags) -> FdEffect {
    let path = None;
    FdEffect::Opens(Opening { path, flags })
}

/// A signal mask for the time of the call, its size in that argument.
pub(crate) const fn mask(size: u8) -> Arg {
    Arg::TempMask { size }
}

/// `number name(arguments) => column(value), ...;` for each row, in any order.
macro_rules! rows {
    ($($nr:literal $name:ident ($($arg:expr),*) $(=> $($column:ident ($($value:expr),*)),+)?;)*) => {
        pub(super) const ROWS: &[crate::row::Row] = &[
            $(crate::row::Row::new($nr, stringify!($name), const { &[$($arg),*] })
                $($(.$column($($value),*))+)?),*
        ];
    };
}
pub(crate) use rows;

/// `number NAME(argument) => column(value), ...;` for each row of a sub-table, in any order.
macro_rules! subs {
    ($($key:literal $name:ident ($arg:expr) $(=> $($column:ident ($($value:expr),*)),+)?;)*) => {
        pub(super) const ROWS: &[crate::sub::request::Sub] = &[
            $(crate::sub::request::Sub::new($key, stringify!($name), $arg)
                $($(.$column($($value),*))+)?),*
        ];
    };
}
pub(crate) use subs;
