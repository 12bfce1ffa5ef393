//! The system call at hand: its registers and its row in the table. Must know nothing of the way in
//! which it is made.

pub mod answer;
pub mod astray;
pub mod clone_args;
pub mod log;
pub mod reply;
pub mod strings;
pub mod words;

use std::fmt;

use relive_host::{Context, GuestAddr, Reg, copy};
use relive_kabi::{At, Blocks, Changes, Choice, End, FdEffect, Holds, Opening, Restart, Row, Sub};

/// A system call as the guest makes it.
#[derive(Clone, Copy)]
pub struct Call {
    /// Number.
    pub nr: u32,
    /// The six argument registers.
    pub args: [u64; 6],
    /// Its row, if there is one.
    pub row: Option<&'static Row>,
    /// The row of its request, if it has a sub-table.
    pub sub: Option<&'static Sub>,
    /// The errno with which it is refused.
    pub refused: Option<i32>,
}

/// The six argument registers.
#[inline]
pub fn registers(ctx: &Context) -> [u64; 6] {
    [Reg::Rdi, Reg::Rsi, Reg::Rdx, Reg::R10, Reg::R8, Reg::R9].map(|reg| ctx.reg(reg))
}

/// Whether the next instruction of a thread is a system call.
#[must_use]
pub fn is_next(ctx: &Context) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    copy::read_array(GuestAddr(ctx.rip)) == Ok(SYSCALL)
}

/// Sets the registers as a `syscall` instruction before `next` leaves them, all but the result.
#[inline]
pub fn go_behind(ctx: &mut Context, next: GuestAddr) {
    let flags = ctx.rflags;
    ctx.set_reg(Reg::Rcx, next.0);
    ctx.set_reg(Reg::R11, flags);
    ctx.rip = next.0;
}

impl Call {
    /// The call whose `syscall` instruction a thread stands at.
    #[must_use]
    pub fn at(ctx: &Context) -> Self {
        // The kernel reads the lower half only.
        Self::of(ctx.reg(Reg::Rax) as u32, registers(ctx))
    }

    /// The call of that number, with these arguments.
    #[must_use]
    pub fn of(nr: u32, args: [u64; 6]) -> Self {
        let row = relive_kabi::row(u64::from(nr));
        let (sub, refused) = match row {
            None => (None, Some(libc::ENOSYS)),
            Some(row) => match row.choice(&args) {
                Choice::Whole => (None, row.replay.refused()),
                Choice::Listed(sub) => (Some(sub), sub.replay.refused()),
                Choice::Unlisted(errno) => (None, Some(errno)),
            },
        };
        Self {
            nr,
            args,
            row,
            sub,
            refused,
        }
    }

    /// The arguments that the call really has.
    #[must_use]
    pub fn used(&self) -> &[u64] {
        &self.args[..self.row.map_or(6, |r| r.args.len())]
    }

    /// May it sleep?
    #[must_use]
    pub fn blocks(&self) -> bool {
        self.sub.map_or_else(
            || self.row.is_some_and(|r| r.blocks == Blocks::Maybe),
            |s| s.blocks == Blocks::Maybe,
        )
    }

    /// Its effect on the table of descriptors.
    #[must_use]
    pub fn fds(&self) -> FdEffect {
        self.sub
            .map_or_else(|| self.row.map_or(FdEffect::None, |r| r.fds), |s| s.fds)
    }

    /// How it opens a file, if it does.
    #[must_use]
    pub fn opening(&self) -> Option<Opening> {
        match self.fds() {
            FdEffect::Opens(opening) => Some(opening),
            _ => None,
        }
    }

    /// Descriptors that it gets elsewhere than in arguments, sets and messages.
    #[must_use]
    pub fn holds(&self) -> Holds {
        self.sub
            .map_or_else(|| self.row.map_or(Holds::Nothing, |r| r.holds), |s| s.holds)
    }

    /// Its changes to a file, other than by its output or by opening the file with O_TRUNC.
    #[must_use]
    pub fn changes(&self) -> Changes {
        self.sub.map_or_else(
            || self.row.map_or(Changes::Nothing, |r| r.changes),
            |s| s.changes,
        )
    }

    /// Whether it may change a file: by its output, by opening the file with O_TRUNC, or otherwise.
    #[must_use]
    pub fn may_change_files(&self) -> bool {
        self.output().is_some_and(|end| end.at != At::Stream)
            || self.opening().is_some()
            || self.changes() != Changes::Nothing
    }

    /// The source of its bytes.
    #[must_use]
    pub fn input(&self) -> Option<End> {
        self.row.and_then(|r| r.input.bytes())
    }

    /// The destination of its bytes.
    #[must_use]
    pub fn output(&self) -> Option<End> {
        self.row.and_then(|r| r.output.bytes())
    }

    /// The effect of a signal on it.
    #[must_use]
    pub fn restart(&self) -> Restart {
        let restart = self.sub.map_or_else(
            || self.row.map_or(Restart::Never, |r| r.restart),
            |s| s.restart,
        );
        restart.of(&self.args)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.row.map_or("unknown", |r| r.name)
    }

    /// An argument that a column of the row names.
    #[must_use]
    pub fn arg(&self, i: u8) -> u64 {
        self.args[usize::from(i)]
    }

    /// An argument as a C int.
    #[must_use]
    pub fn int(&self, i: usize) -> i32 {
        self.args[i] as i32
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        if self.row.is_none() {
            write!(f, "_{}", self.nr)?;
        }
        f.write_str("(")?;
        for (i, a) in self.used().iter().enumerate() {
            write!(f, "{}{a:#x}", if i == 0 { "" } else { ", " })?;
        }
        if let Some(sub) = self.sub {
            write!(f, " = {}", sub.name)?;
        }
        f.write_str(")")
    }
}
