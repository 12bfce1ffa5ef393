//! One system call at hand: its registers and row, what it did, and what the tape says of it.

use std::fmt;

use relive_host::{GuestAddr, Reg, copy};
use relive_kabi::{
    Blocks, Changes, Choice, End, FdEffect, Holds, OpenFlags, Opening, Restart, Row, Sub,
};
use relive_trace::{InputRef, Syscall};

use crate::task::{Flow, Task};

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
pub fn registers(task: &Task) -> [u64; 6] {
    [Reg::Rdi, Reg::Rsi, Reg::Rdx, Reg::R10, Reg::R8, Reg::R9].map(|reg| task.ctx.reg(reg))
}

/// Goes behind a `syscall` instruction whose next one is `next`, as it does: all but the result.
#[inline]
pub fn go_behind(task: &mut Task, next: GuestAddr) {
    let flags = task.ctx.rflags;
    task.ctx.set_reg(Reg::Rcx, next.0);
    task.ctx.set_reg(Reg::R11, flags);
    task.ctx.rip = next.0;
}

/// What a hook answers.
pub enum Reply {
    /// The result.
    Value(i64),
    /// Everything has been logged and set; the task goes on like this.
    Flow(Flow),
    /// Everything has been logged and set; the task runs on.
    Returned,
}

impl Reply {
    /// The result of a call that succeeds with 0, or fails with a negative error number.
    #[must_use]
    pub fn done(done: std::result::Result<(), i64>) -> Self {
        Self::Value(done.map_or_else(|errno| errno, |()| 0))
    }
}

impl Call {
    /// The call whose `syscall` instruction the task stands at.
    #[must_use]
    pub fn at(task: &Task) -> Self {
        // The kernel looks at the lower half.
        Self::of(task.ctx.reg(Reg::Rax) as u32, registers(task))
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

    /// What it does to the table of descriptors.
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

    /// The flags of open(2) with which it opens a file; none if they cannot be read.
    #[must_use]
    pub fn open_flags(&self, opening: Opening) -> u64 {
        match opening.flags {
            OpenFlags::In(argument) => self.arg(argument),
            OpenFlags::Behind(argument) => {
                copy::read_u64(GuestAddr(self.arg(argument))).unwrap_or(0)
            }
            OpenFlags::Create => (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64,
        }
    }

    /// Descriptors that it is given elsewhere than in arguments, sets and messages.
    #[must_use]
    pub fn holds(&self) -> Holds {
        self.sub
            .map_or_else(|| self.row.map_or(Holds::Nothing, |r| r.holds), |s| s.holds)
    }

    /// What it changes in a file besides what it writes and cuts.
    #[must_use]
    pub fn changes(&self) -> Changes {
        self.sub.map_or_else(
            || self.row.map_or(Changes::Nothing, |r| r.changes),
            |s| s.changes,
        )
    }

    /// Where it takes bytes from.
    #[must_use]
    pub fn input(&self) -> Option<End> {
        self.row.and_then(|r| r.input.bytes())
    }

    /// Where it brings bytes to.
    #[must_use]
    pub fn output(&self) -> Option<End> {
        self.row.and_then(|r| r.output.bytes())
    }

    /// What a signal does to it.
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

/// What a call did besides returning: collected while it is made, then logged. Reused from
/// call to call, so that logging does not allocate.
#[derive(Default)]
pub struct Log {
    /// Guest ranges that the kernel wrote: address, length.
    pub spans: Vec<(u64, u64)>,
    /// Data of the hook.
    pub extra: Vec<u8>,
    /// Another thread ran meanwhile.
    pub switched: bool,
    /// Its number among the outputs of the tree.
    pub order: Option<u64>,
    /// Which standard stream it wrote to.
    pub stream: u8,
    /// Nobody else may run while it is made, and it does not sleep.
    pub keeps_baton: bool,
    /// Room for references into the store of input.
    pub refs: Vec<InputRef>,
    /// What the guest cannot read of the ranges is the file's, or zeros behind its end.
    padded: bool,
    bytes: Vec<u8>,
}

/// What guest memory has between two addresses, whether the guest may read it or not.
type Behind<'a> = &'a dyn Fn(u64, u64) -> Vec<u8>;

impl Log {
    /// Forgets the last call.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.extra.clear();
        (self.switched, self.order, self.stream) = (false, None, 0);
        (self.padded, self.keeps_baton) = (false, false);
    }

    /// Notes that the kernel wrote `len` bytes at `addr`.
    pub fn wrote(&mut self, addr: u64, len: u64) {
        if addr != 0 && len != 0 {
            self.spans.push((addr, len));
        }
    }

    /// Notes that `len` bytes at `addr` have changed with the file behind them. What lies
    /// behind the end of the file is zeros if it ever grows again.
    pub fn changed(&mut self, addr: u64, len: u64) {
        self.wrote(addr, len);
        self.padded = true;
    }

    /// How many bytes the call brought.
    #[must_use]
    pub fn brought(&self) -> u64 {
        self.spans
            .iter()
            .fold(0, |sum, (_, len)| sum.saturating_add(*len))
    }

    /// Reads the written ranges from guest memory and passes them on. A range that cannot be
    /// read to its end is cut there, or goes on in zeros behind the end of a file; `behind` knows
    /// what is there, from an address to another one.
    pub fn with_slices(&mut self, behind: Behind<'_>, f: impl FnOnce(&Self, &[(u64, &[u8])])) {
        let mut bytes = std::mem::take(&mut self.bytes);
        match self.spans[..] {
            [] => f(self, &[]),
            [span] => {
                let end = self.read(behind, span, &mut bytes, 0);
                f(self, &[(span.0, &bytes[..end])]);
            }
            _ => self.with_many(behind, &mut bytes, f),
        }
        if bytes.len() <= 1 << 20 {
            self.bytes = bytes;
        }
    }

    fn with_many(
        &self,
        behind: Behind<'_>,
        bytes: &mut Vec<u8>,
        f: impl FnOnce(&Self, &[(u64, &[u8])]),
    ) {
        let mut end = 0;
        let ends = self.spans.iter().map(|span| {
            end = self.read(behind, *span, bytes, end);
            end
        });
        let ends: Vec<usize> = ends.collect();
        let mut start = 0;
        let slices = self.spans.iter().zip(ends).map(|(span, end)| {
            let from = std::mem::replace(&mut start, end);
            (span.0, &bytes[from..end])
        });
        f(self, &slices.collect::<Vec<_>>());
    }

    /// Reads a range into `bytes` from `start` on; returns where it ends there. The vector may
    /// be longer: what is overwritten is not cleared before.
    fn read(
        &self,
        behind: Behind<'_>,
        (addr, len): (u64, u64),
        bytes: &mut Vec<u8>,
        start: usize,
    ) -> usize {
        let end = start + len as usize;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        let Err(copy::BadAddress(bad)) = copy::read(GuestAddr(addr), &mut bytes[start..end]) else {
            return end;
        };
        let readable = start + (bad.0 - addr) as usize;
        if self.padded {
            let rest = behind(bad.0, addr + len);
            bytes[readable..end].copy_from_slice(&rest);
            return end;
        }
        readable
    }
}

/// What the tape says of the call at hand.
#[derive(Clone, Default)]
pub struct Answer {
    /// Its result.
    pub result: i64,
    /// Data of the hook.
    pub extra: Vec<u8>,
    /// Its number among the outputs of the tree.
    pub order: Option<u64>,
    /// Which standard stream it wrote to.
    pub stream: u8,
    writes: Vec<(u64, usize)>,
    bytes: Vec<u8>,
    /// References into the store of input.
    pub refs: Vec<InputRef>,
}

impl Answer {
    /// Replay: the index of the thread or process that the call made; the hooks of clone,
    /// fork and vfork put it first into `extra`.
    #[must_use]
    pub fn child_index(&self) -> u32 {
        let bytes = self.extra.get(..4).and_then(|b| b.try_into().ok());
        u32::from_le_bytes(bytes.unwrap_or_default())
    }

    /// Copies what is needed of an event.
    #[must_use]
    pub fn of(event: &Syscall<'_>) -> Self {
        let mut a = Self {
            result: event.result,
            extra: event.extra.to_vec(),
            order: event.order,
            stream: event.stream,
            ..Self::default()
        };
        for (addr, bytes) in event.writes.iter() {
            a.writes.push((addr, bytes.len()));
            a.bytes.extend_from_slice(bytes);
        }
        a.refs.extend(event.refs.iter());
        a
    }

    /// Whether memory is to be written.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty() || !self.refs.is_empty()
    }

    /// The bytes written, by address.
    pub fn writes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = &self.bytes[..];
        self.writes.iter().map(move |&(addr, n)| {
            let (head, tail) = rest.split_at(n);
            rest = tail;
            (addr, head)
        })
    }
}
