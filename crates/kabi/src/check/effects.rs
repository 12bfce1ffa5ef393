//! Effects: the descriptors, files and tasks that a row names are among its arguments.

use super::args::{at_index, number, offset, pointer, written};
use crate::arg::{Arg, Dir, Len};
use crate::columns::{
    At, Blocks, Changes, End, FdEffect, Holds, Makes, Moves, OpenFlags, Opening, Reports, Transfer,
};
use crate::row::Row;

/// Panics unless the effects of a call are on objects that its arguments name.
pub(super) const fn row(row: &Row) {
    descriptors(row);
    transfer(row.input, row, true);
    transfer(row.output, row, false);
    moves(row);
    changes(row.changes, row.args);
    tasks(row);
}

/// Panics unless descriptors come and go as the arguments say.
const fn descriptors(row: &Row) {
    match row.fds {
        FdEffect::CreatesPair(index) => {
            let bytes = match at_index(row.args, index) {
                Arg::Buf {
                    dir: Dir::Out,
                    out: Len::Fixed(bytes),
                    ..
                } => bytes,
                _ => 0,
            };
            assert!(
                bytes == 8,
                "a pair of descriptors is two ints that the kernel writes"
            );
        }
        FdEffect::Closes(index) => {
            assert!(
                matches!(at_index(row.args, index), Arg::Fd),
                "only a descriptor is closed"
            );
        }
        FdEffect::Copies(index) => copied(at_index(row.args, index)),
        FdEffect::Receives(index) => {
            assert!(
                matches!(
                    at_index(row.args, index),
                    Arg::Msghdr { dir: Dir::Out } | Arg::Mmsghdr { dir: Dir::Out, .. }
                ),
                "only messages bring descriptors"
            );
        }
        FdEffect::Opens(opening) => opens(opening, row.args),
        FdEffect::CreatesAt(_) => panic!("only an option of a socket writes one descriptor"),
        FdEffect::None
        | FdEffect::Creates
        | FdEffect::Finds
        | FdEffect::ClosesRange
        | FdEffect::Table => {}
    }
}

const fn copied(arg: Arg) {
    assert!(matches!(arg, Arg::Fd), "only a descriptor is copied");
}

const fn opens(opening: Opening, args: &[Arg]) {
    if let Some(path) = opening.path {
        assert!(
            matches!(at_index(args, path), Arg::Str),
            "a file has a path"
        );
        assert!(
            path == 0 || matches!(at_index(args, path - 1), Arg::DirFd),
            "a path begins in a folder"
        );
    }
    let found = match opening.flags {
        OpenFlags::In(index) => matches!(at_index(args, index), Arg::Flags),
        OpenFlags::Behind(index) => {
            matches!(at_index(args, index), Arg::Buf { dir: Dir::In, .. })
        }
        OpenFlags::Create => true,
    };
    assert!(found, "flags say how a file is opened");
}

/// Panics unless the ends of a transfer agree with the arguments.
const fn transfer(transfer: Transfer, row: &Row, input: bool) {
    let Some(fd) = transfer.fd() else { return };
    assert!(
        matches!(at_index(row.args, fd), Arg::Fd),
        "a transfer has a descriptor at its end"
    );
    assert!(
        matches!(row.blocks, Blocks::Maybe),
        "a transfer may have to wait"
    );
    let Some(End { at, memory, .. }) = transfer.bytes() else {
        return;
    };
    if let Some(index) = memory {
        let dir = match at_index(row.args, index) {
            Arg::Buf { dir, .. }
            | Arg::Iovec { dir, .. }
            | Arg::Msghdr { dir }
            | Arg::Mmsghdr { dir, .. } => dir,
            _ => panic!("no memory for the bytes of a transfer"),
        };
        let fits = match dir {
            Dir::In => !input,
            Dir::Out => input,
            Dir::InOut => true,
        };
        assert!(fits, "bytes go the other way");
    }
    match at {
        At::Stream | At::Position => {}
        At::Offset(index) => offset(row.args, index),
        At::Flagged {
            offset: index,
            flags,
        } => {
            offset(row.args, index);
            assert!(
                matches!(at_index(row.args, flags), Arg::Flags),
                "flags say where"
            );
        }
        At::Pointer(index) => pointer(row.args, index),
    }
}

/// Panics unless a call moves exactly the bytes that have descriptors at both ends.
const fn moves(row: &Row) {
    let ends = match (row.input.bytes(), row.output.bytes()) {
        (Some(from), Some(to)) => from.memory.is_none() && to.memory.is_none(),
        (Some(end), None) | (None, Some(end)) => {
            assert!(end.memory.is_some(), "a transfer has two ends");
            false
        }
        (None, None) => false,
    };
    match row.moves {
        Moves::No => assert!(!ends, "it moves bytes"),
        Moves::FromFile { len, .. } => {
            assert!(ends, "there are no two descriptors");
            number(row.args, len);
        }
        Moves::ByPipe { len, flags } | Moves::Tees { len, flags } => {
            assert!(ends, "there are no two descriptors");
            number(row.args, len);
            assert!(
                matches!(at_index(row.args, flags), Arg::Flags),
                "flags say how"
            );
        }
    }
}

/// Panics unless a changed file is one that the arguments name.
const fn changes(changes: Changes, args: &[Arg]) {
    let fits = match changes {
        Changes::Nothing => true,
        Changes::Size(fd) | Changes::All(fd) => matches!(at_index(args, fd), Arg::Fd),
        Changes::Space(fd) => {
            matches!(at_index(args, fd), Arg::Fd)
                && matches!(at_index(args, fd + 1), Arg::Int)
                && matches!(at_index(args, fd + 2), Arg::Off)
                && matches!(at_index(args, fd + 3), Arg::Off)
        }
        Changes::SizeOfNamed(path) => matches!(at_index(args, path), Arg::Str),
    };
    assert!(fits, "no such file");
}

/// Panics unless the task effects of a call are in its arguments.
const fn tasks(row: &Row) {
    let makes = match row.makes {
        Makes::Nothing | Makes::Process => true,
        Makes::Flags(index) => matches!(at_index(row.args, index), Arg::Flags),
        Makes::FlagsBehind(index) => matches!(at_index(row.args, index), Arg::Addr),
    };
    assert!(makes, "flags say what task is made");
    let reports = match row.reports {
        Reports::Nothing => true,
        Reports::Status(index) => {
            written(row.args, index) && matches!(at_index(row.args, index + 1), Arg::Flags)
        }
        Reports::Info(index) => written(row.args, index),
    };
    assert!(reports, "the end of a child is written");
    let holds = match row.holds {
        Holds::Nothing => true,
        Holds::Word(index, _) | Holds::Targets(index) => {
            matches!(at_index(row.args, index), Arg::Buf { .. })
        }
        Holds::OfPidfd(index) => {
            matches!(at_index(row.args, index), Arg::Fd)
                && matches!(at_index(row.args, index + 1), Arg::Int)
        }
        Holds::Compared => row.args.len() == 5 && matches!(row.args[0], Arg::Pid),
    };
    assert!(holds, "descriptors are not there");
}
