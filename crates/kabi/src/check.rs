//! What is checked while compiling: an impossible row never becomes a program.

use crate::arg::{Arg, Dir, Len, Special};
use crate::columns::{
    At, Blocks, Changes, End, FdEffect, Holds, Makes, Moves, OpenFlags, Opening, Replay, Reports,
    Restart, Transfer,
};
use crate::row::Row;
use crate::sub::{Sub, SubTable};

/// Whether each number is there once, in ascending order.
pub(crate) const fn sorted(rows: &[Row]) -> bool {
    let mut at = 1;
    while at < rows.len() {
        if rows[at - 1].nr >= rows[at].nr {
            return false;
        }
        at += 1;
    }
    true
}

/// Panics unless the rows (sorted) hold every number that x86-64 Linux 6.12 defines, and
/// nothing in the gap that the architectures agreed to leave free.
pub(crate) const fn numbers_of_linux_6_12(rows: &[Row]) {
    let (mut at, mut number) = (0, 0);
    while number <= 462 {
        if number == 336 {
            number = 424;
        }
        assert!(
            rows[at].nr == number,
            "a system call of Linux 6.12 has no row"
        );
        at += 1;
        number += 1;
    }
}

/// Panics unless a row makes sense by itself.
pub(crate) const fn row(row: &Row) {
    assert!(row.args.len() <= 6, "more than six arguments");
    let (mut at, mut selects) = (0, 0);
    while at < row.args.len() {
        argument(row.args[at], row.args);
        if matches!(row.args[at], Arg::Select) {
            selects += 1;
        }
        at += 1;
    }
    match row.sub {
        SubTable::None => assert!(selects == 0, "a selected argument without a table"),
        SubTable::Sockopt => assert!(selects == 0, "socket options use the row's own buffer"),
        _ => assert!(selects == 1, "a sub-table needs one selected argument"),
    }
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
        FdEffect::None
        | FdEffect::Creates
        | FdEffect::Finds
        | FdEffect::ClosesRange
        | FdEffect::Table => {}
    }
    transfer(row.input, row, true);
    transfer(row.output, row, false);
    moves(row);
    changes(row.changes, row.args);
    tasks(row);
    columns(row.blocks, row.restart, row.replay, row.note);
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

/// Panics unless the ends of a transfer are what the arguments say.
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

/// Panics unless what a call says of tasks is in its arguments.
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

const fn written(args: &[Arg], index: u8) -> bool {
    matches!(at_index(args, index), Arg::Buf { dir: Dir::Out, .. })
}

const fn offset(args: &[Arg], index: u8) {
    assert!(
        matches!(at_index(args, index), Arg::Off),
        "an offset in a file"
    );
}

/// Panics unless the rows of a sub-table are sorted, unique and make sense.
pub(crate) const fn sub_table(rows: &[Sub]) {
    let mut at = 0;
    while at < rows.len() {
        if at > 0 {
            assert!(
                rows[at - 1].key < rows[at].key,
                "two requests have the same number"
            );
        }
        match rows[at].arg {
            Arg::Int | Arg::Fd | Arg::Unused => {}
            Arg::Buf { cap, out, .. } => {
                assert!(
                    of_request(cap) && of_request(out),
                    "the size of a request's argument is fixed, or stands in it"
                );
            }
            Arg::LengthAndBuffer => assert!(
                matches!(rows[at].blocks, Blocks::Never),
                "a buffer behind an address is not copied for a call that sleeps"
            ),
            _ => panic!("no such argument in a sub-table"),
        }
        assert!(
            matches!(
                rows[at].fds,
                FdEffect::None | FdEffect::Creates | FdEffect::Finds | FdEffect::Copies(0)
            ),
            "a request at most makes a descriptor"
        );
        assert!(
            matches!(rows[at].changes, Changes::Nothing | Changes::All(0)),
            "a request changes all of the file that it is made of"
        );
        match rows[at].holds {
            Holds::Nothing => {}
            Holds::Word(index, _) | Holds::Targets(index) => assert!(
                index == 2 && matches!(rows[at].arg, Arg::Buf { .. }),
                "descriptors are in the structure of a request"
            ),
            Holds::OfPidfd(_) | Holds::Compared => panic!("no descriptors of others in a request"),
        }
        columns(
            rows[at].blocks,
            rows[at].restart,
            rows[at].replay,
            rows[at].note,
        );
        at += 1;
    }
}

const fn of_request(len: Len) -> bool {
    use Special::{Extents, ExtentsFound, Targets};
    matches!(
        len,
        Len::Fixed(_) | Len::Special(Extents(2) | ExtentsFound(2) | Targets(2))
    )
}

const fn columns(blocks: Blocks, restart: Restart, replay: Replay, note: &str) {
    assert!(
        matches!(blocks, Blocks::Maybe) || matches!(restart, Restart::Never | Restart::Always),
        "a call that does not sleep is not restarted"
    );
    if let Replay::Errno(errno) = replay {
        assert!(
            errno > 0 && errno < 4096,
            "an errno is a small positive number"
        );
    }
    assert!(
        matches!(replay, Replay::Apply | Replay::Redo) || !note.is_empty(),
        "a hook or a refusal says why"
    );
}

const fn argument(arg: Arg, args: &[Arg]) {
    match arg {
        Arg::Buf { dir, cap, out, .. } => {
            length(cap, args);
            length(out, args);
            assert!(
                !matches!(cap, Len::Ret | Len::RetTimes(_) | Len::RetPlus(_)),
                "the result is not known before the call"
            );
            assert!(
                dir.written() || matches!(out, Len::Fixed(0)),
                "a buffer that the kernel only reads is not written"
            );
        }
        Arg::Iovec { count, .. } | Arg::Mmsghdr { count, .. } => number(args, count),
        Arg::TempMask { size } => number(args, size),
        _ => {}
    }
}

const fn length(len: Len, args: &[Arg]) {
    match len {
        Len::Arg(index) | Len::ArgTimes(index, _) | Len::ArgPlus(index, _) => number(args, index),
        Len::Deref32(index) | Len::Deref64(index) => pointer(args, index),
        Len::Special(special) => match special {
            Special::FdSet(index)
            | Special::PollFds(index)
            | Special::Pages(index)
            | Special::NodeMask(index) => {
                number(args, index);
            }
            Special::FileHandle(index)
            | Special::CapData(index)
            | Special::Extents(index)
            | Special::ExtentsFound(index)
            | Special::Targets(index) => pointer(args, index),
            Special::MountId(index) => {
                assert!(
                    matches!(at_index(args, index), Arg::Flags),
                    "flags tell this length"
                );
            }
        },
        Len::Fixed(_) | Len::Ret | Len::RetTimes(_) | Len::RetPlus(_) => {}
    }
}

const fn number(args: &[Arg], index: u8) {
    assert!(
        matches!(at_index(args, index), Arg::Int | Arg::Uint | Arg::Size),
        "a length or a count is a number"
    );
}

const fn pointer(args: &[Arg], index: u8) {
    assert!(
        matches!(at_index(args, index), Arg::Buf { .. }),
        "a length behind a pointer"
    );
}

const fn at_index(args: &[Arg], index: u8) -> Arg {
    assert!((index as usize) < args.len(), "no such argument");
    args[index as usize]
}
