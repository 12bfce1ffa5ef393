//! From a row and its arguments to the one request that they name. A request that no table lists
//! must become a refusal here.

use crate::arg::Arg;
use crate::columns::{Blocks, Changes, FdEffect, Holds, Replay, Restart};
use crate::row::Row;
use crate::sub::Sub;
use crate::sub_table::SubTable;

/// The refinement of a row, for given arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The row has no sub-table and is complete.
    Whole,
    /// This request.
    Listed(&'static Sub),
    /// A request without a row: refused with this errno (positive).
    Unlisted(i32),
}

impl Row {
    /// The refinement of this row, for these arguments.
    pub fn choice(&self, args: &[u64; 6]) -> Choice {
        if self.sub == SubTable::None {
            return Choice::Whole;
        }
        match self.sub.find(self.sub.key(args)) {
            Some(sub) => Choice::Listed(sub),
            None => Choice::Unlisted(self.sub.unlisted()),
        }
    }

    /// This row with the columns of the request in place of its own: whether it blocks, restarts,
    /// touches descriptors, changes files, and its replay. Only the arguments stay as they are; see
    /// [`Row::argument`]. A request that is not listed becomes a refusal.
    pub fn refined(&self, choice: Choice) -> Row {
        match choice {
            Choice::Whole => *self,
            Choice::Listed(sub) => Row {
                blocks: sub.blocks,
                restart: sub.restart,
                fds: sub.fds,
                changes: sub.changes,
                holds: sub.holds,
                replay: sub.replay,
                note: sub.note,
                ..*self
            },
            Choice::Unlisted(errno) => Row {
                blocks: Blocks::Never,
                restart: Restart::Never,
                fds: FdEffect::None,
                changes: Changes::Nothing,
                holds: Holds::Nothing,
                replay: Replay::Errno(errno),
                note: "not listed",
                ..*self
            },
        }
    }

    /// The meaning of the argument of that index with this choice: never [`Arg::Select`], and
    /// [`Arg::Unused`] beyond the last one.
    pub fn argument(&self, index: usize, choice: Choice) -> Arg {
        match (self.args.get(index), choice) {
            (None, _) => Arg::Unused,
            (Some(Arg::Select), Choice::Listed(sub)) => sub.arg,
            (Some(Arg::Select), Choice::Whole | Choice::Unlisted(_)) => Arg::Hex,
            (Some(&arg), _) => arg,
        }
    }
}
