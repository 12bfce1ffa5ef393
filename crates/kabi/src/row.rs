//! One system call: the row of the table.

use crate::arg::Arg;
use crate::columns::{
    Blocks, Changes, End, FdEffect, Holds, Makes, Moves, Replay, Reports, Restart, Transfer,
};
use crate::sub_table::SubTable;

/// One row of the system call table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The x86-64 number.
    pub nr: u16,
    /// The name as in `<asm/unistd_64.h>`, without the prefix.
    pub name: &'static str,
    /// The arguments in order, at most six. Empty for a call that Linux has removed.
    pub args: &'static [Arg],
    /// Whether one of them is a signal mask for the time of the call.
    pub sets_mask: bool,
    /// Whether it may sleep.
    pub blocks: Blocks,
    /// The effect of a signal while it sleeps.
    pub restart: Restart,
    /// Its effect on the descriptor table.
    pub fds: FdEffect,
    /// Its transfer from a descriptor.
    pub input: Transfer,
    /// Its transfer to a descriptor.
    pub output: Transfer,
    /// The way in which it moves bytes that have a descriptor at both ends.
    pub moves: Moves,
    /// Its other change of a file.
    pub changes: Changes,
    /// Descriptors that it takes elsewhere than in arguments, sets and messages.
    pub holds: Holds,
    /// The task that it makes.
    pub makes: Makes,
    /// The place of its report of the end of a child.
    pub reports: Reports,
    /// Whether it may change which memory is mapped, and not only how.
    pub maps: bool,
    /// Whether a replay computes an effect of it on the shared state of a process's threads: their memory map,
    /// actions, limits, rights, or which of them there are.
    pub shares: bool,
    /// Whether seccomp(2) allows it in strict mode.
    pub strict: bool,
    /// Its replay.
    pub replay: Replay,
    /// The table that refines this row, if any: see [`Row::choice`].
    pub sub: SubTable,
    /// A short remark for the coverage page; never empty for a hook or a refusal.
    pub note: &'static str,
}

const fn has_mask(mut args: &[Arg]) -> bool {
    while let [arg, rest @ ..] = args {
        if matches!(arg, Arg::TempMask { .. } | Arg::TempMaskPair) {
            return true;
        }
        args = rest;
    }
    false
}

/// Building a row, in constants only: `rows!` expands to these.
impl Row {
    pub(crate) const fn new(nr: u16, name: &'static str, args: &'static [Arg]) -> Row {
        Row {
            nr,
            name,
            args,
            sets_mask: has_mask(args),
            blocks: Blocks::Never,
            restart: Restart::Never,
            fds: FdEffect::None,
            input: Transfer::None,
            output: Transfer::None,
            moves: Moves::No,
            changes: Changes::Nothing,
            holds: Holds::Nothing,
            makes: Makes::Nothing,
            reports: Reports::Nothing,
            maps: false,
            shares: false,
            strict: false,
            replay: Replay::Apply,
            sub: SubTable::None,
            note: "",
        }
    }

    pub(crate) const fn blocks(mut self, restart: Restart) -> Row {
        self.blocks = Blocks::Maybe;
        self.restart = restart;
        self
    }

    /// Made again after any interruption, without having slept.
    pub(crate) const fn again(mut self) -> Row {
        self.restart = Restart::Always;
        self
    }

    pub(crate) const fn fds(mut self, fds: FdEffect) -> Row {
        self.fds = fds;
        self
    }

    /// Reads bytes from a descriptor.
    pub(crate) const fn from(mut self, end: End) -> Row {
        self.input = Transfer::Bytes(end);
        self
    }

    /// Writes bytes to a descriptor.
    pub(crate) const fn to(mut self, end: End) -> Row {
        self.output = Transfer::Bytes(end);
        self
    }

    pub(crate) const fn accepts(mut self, fd: u8) -> Row {
        self.input = Transfer::Connection(fd);
        self
    }

    pub(crate) const fn connects(mut self, fd: u8) -> Row {
        self.output = Transfer::Connection(fd);
        self
    }

    pub(crate) const fn moves(mut self, moves: Moves) -> Row {
        self.moves = moves;
        self
    }

    pub(crate) const fn changes(mut self, changes: Changes) -> Row {
        self.changes = changes;
        self
    }

    pub(crate) const fn holds(mut self, holds: Holds) -> Row {
        self.holds = holds;
        self
    }

    pub(crate) const fn makes(mut self, makes: Makes) -> Row {
        self.makes = makes;
        self
    }

    pub(crate) const fn reports(mut self, reports: Reports) -> Row {
        self.reports = reports;
        self
    }

    /// Its mapping is shared by all threads.
    pub(crate) const fn maps(mut self) -> Row {
        self.maps = true;
        self.shares()
    }

    pub(crate) const fn shares(mut self) -> Row {
        self.shares = true;
        self
    }

    pub(crate) const fn strict(mut self) -> Row {
        self.strict = true;
        self
    }

    pub(crate) const fn sub(mut self, sub: SubTable) -> Row {
        self.sub = sub;
        self
    }

    pub(crate) const fn note(mut self, note: &'static str) -> Row {
        self.note = note;
        self
    }

    pub(crate) const fn redo(mut self) -> Row {
        self.replay = Replay::Redo;
        self
    }

    pub(crate) const fn hook(mut self, note: &'static str) -> Row {
        self.replay = Replay::Hook;
        self.note(note)
    }

    pub(crate) const fn enosys(mut self, note: &'static str) -> Row {
        self.replay = Replay::Enosys;
        self.note(note)
    }

    pub(crate) const fn errno(mut self, errno: i32, note: &'static str) -> Row {
        self.replay = Replay::Errno(errno);
        self.note(note)
    }

    /// Whether a call takes nothing but its number and gives nothing but its result, as sched_yield(2) does: no other
    /// thread learns by it what its own one has done before.
    #[must_use]
    pub const fn is_private(&self) -> bool {
        let effects = matches!(self.fds, FdEffect::None) && matches!(self.makes, Makes::Nothing);
        self.args.is_empty() && effects && !self.shares && matches!(self.blocks, Blocks::Never)
    }
}
