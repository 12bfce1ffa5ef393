//! Checks made while compiling: an impossible row never becomes a program.

mod args;
mod effects;

use crate::arg::{Arg, Len, Special};
use crate::columns::{Blocks, Changes, FdEffect, Holds, Replay, Restart};
use crate::row::Row;
use crate::sub::Sub;
use crate::sub_table::SubTable;

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

/// Panics unless a row is consistent by itself.
pub(crate) const fn row(row: &Row) {
    assert!(row.args.len() <= 6, "more than six arguments");
    let (mut at, mut selects) = (0, 0);
    while at < row.args.len() {
        args::argument(row.args[at], row.args);
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
    effects::row(row);
    columns(row.blocks, row.restart, row.replay, row.note);
}

/// Panics unless the rows of a sub-table are sorted, unique and consistent.
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
                    "the size of a request's argument is fixed, stands in it or behind it, or is the result"
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
                FdEffect::None
                    | FdEffect::Creates
                    | FdEffect::CreatesAt(3)
                    | FdEffect::Finds
                    | FdEffect::Copies(0)
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
        Len::Fixed(_)
            | Len::Arg(3)
            | Len::Ret
            | Len::Special(Extents(2) | ExtentsFound(2) | Targets(2))
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
