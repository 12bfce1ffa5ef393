//! One request of a call with a sub-table: its row, and the sorting of a table's rows.

use crate::arg::Arg;
use crate::columns::{Blocks, Changes, FdEffect, Holds, Replay, Restart};

/// One request of a call with a sub-table. Replaces the call's own columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sub {
    /// The request: see [`super::SubTable::key`].
    pub key: u64,
    /// Its name in the manual or the header.
    pub name: &'static str,
    /// The meaning of the argument that the row marks with [`Arg::Select`]: unused, a value, a
    /// descriptor or a flat buffer, whose lengths name arguments of the whole call.
    ///
    /// In the table of socket options `InOut` marks options that can be both set and got, with
    /// their usual size: the buffer itself is described by the rows of setsockopt and getsockopt.
    pub arg: Arg,
    /// Whether it may sleep.
    pub blocks: Blocks,
    /// The effect of a signal while it sleeps.
    pub restart: Restart,
    /// Its effect on the descriptor table.
    pub fds: FdEffect,
    /// Its change of a file.
    pub changes: Changes,
    /// Descriptors that it takes in the structure of its argument.
    pub holds: Holds,
    /// Its replay.
    pub replay: Replay,
    /// A short remark; never empty for a hook or a refusal.
    pub note: &'static str,
}

/// Building a row, in constants only: `subs!` expands to these.
impl Sub {
    pub(crate) const fn new(key: u64, name: &'static str, arg: Arg) -> Sub {
        Sub {
            key,
            name,
            arg,
            blocks: Blocks::Never,
            restart: Restart::Never,
            fds: FdEffect::None,
            changes: Changes::Nothing,
            holds: Holds::Nothing,
            replay: Replay::Apply,
            note: "",
        }
    }

    pub(crate) const fn blocks(mut self, restart: Restart) -> Sub {
        self.blocks = Blocks::Maybe;
        self.restart = restart;
        self
    }

    pub(crate) const fn fds(mut self, fds: FdEffect) -> Sub {
        self.fds = fds;
        self
    }

    pub(crate) const fn changes(mut self, changes: Changes) -> Sub {
        self.changes = changes;
        self
    }

    pub(crate) const fn holds(mut self, holds: Holds) -> Sub {
        self.holds = holds;
        self
    }

    pub(crate) const fn hook(mut self, note: &'static str) -> Sub {
        self.replay = Replay::Hook;
        self.note = note;
        self
    }

    pub(crate) const fn errno(mut self, errno: i32, note: &'static str) -> Sub {
        self.replay = Replay::Errno(errno);
        self.note = note;
        self
    }
}

/// The rows of some families, sorted by key. Each family's keys have its base added.
pub(super) const fn sort<const N: usize>(families: &[(u64, &[Sub])]) -> [Sub; N] {
    let mut sorted = [families[0].1[0]; N];
    let (mut filled, mut family) = (0, 0);
    while family < families.len() {
        let (base, rows) = families[family];
        let mut at = 0;
        while at < rows.len() {
            let mut sub = rows[at];
            sub.key += base;
            let mut hole = filled;
            while hole > 0 && sorted[hole - 1].key > sub.key {
                sorted[hole] = sorted[hole - 1];
                hole -= 1;
            }
            sorted[hole] = sub;
            filled += 1;
            at += 1;
        }
        family += 1;
    }
    assert!(filled == N, "the families do not fill the table");
    sorted
}
