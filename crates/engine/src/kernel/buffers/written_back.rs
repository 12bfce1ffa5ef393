//! The way back from the kernel: the bytes that a call has written, told by its row, its result and the
//! lengths that it left. Must never give the guest bytes that the kernel has not written.

use relive_kabi::{Dir, Len};

use super::{Buffers, Piece, Rule, length};
use crate::call::Call;
use crate::failure::{Result, answered};
use crate::space::{AddressSpace, WRITE};
use crate::task::Task;

/// Longer structures and messages there are none.
const PARTS_MOST: u64 = 1 << 20;

/// The first address from `start` on at which the guest cannot write; `end`, if there is none before it.
fn writable_until(space: &AddressSpace, start: u64, end: u64) -> u64 {
    let mut there = start;
    for region in space.overlapping(start, end) {
        if region.start > there || region.prot & WRITE == 0 {
            break;
        }
        there = region.end.min(end);
    }
    there
}

impl Buffers {
    /// After the call: copies bounced bytes back, and notes the ranges that the kernel wrote in the
    /// task's log.
    ///
    /// # Errors
    /// A page cannot be opened.
    pub fn finish(&mut self, task: &mut Task, call: &Call, result: i64) -> Result<()> {
        for (at, fd) in self.hidden.drain(..) {
            self.arena[at..at + fd.len()].copy_from_slice(&fd);
        }
        let failed = (-4095..0).contains(&result);
        if !self.bounced && !task.has_company() && self.may_be_cut(task, result) {
            self.note_parts(task);
            if failed {
                // That was all there is.
                return Ok(());
            }
        }
        // Length words first: the lengths of other pieces are read from them.
        for p in self
            .pieces
            .iter()
            .filter(|p| p.dir != Dir::In && matches!(p.rule, Rule::All))
        {
            if !failed {
                self.back(task, p, p.cap)?;
            }
        }
        if !self.bounced && !failed {
            for &at in &self.lengths[..self.lengths.len().min(result as usize)] {
                task.log.wrote(at, 4);
            }
        }
        let fixed = |p: &&Piece| matches!(p.rule, Rule::Table(Len::Fixed(_), _));
        for p in self.pieces.iter().filter(|p| p.dir != Dir::In && fixed(p)) {
            self.table(task, call, p, result)?;
        }
        let mut left: Option<(usize, u64)> = None;
        for p in self.pieces.iter().filter(|p| p.dir != Dir::In && !fixed(p)) {
            match p.rule {
                Rule::Table(..) => self.table(task, call, p, result)?,
                Rule::Share(message) if !failed => {
                    let mut rest = match left {
                        Some((m, rest)) if m == message => rest,
                        _ => self.message_len(task, message, result),
                    };
                    let n = rest.min(p.cap);
                    rest -= n;
                    left = Some((message, rest));
                    self.back(task, p, n)?;
                }
                Rule::Word(at, size) if !failed => {
                    let word = task.read_u64(at).unwrap_or(0);
                    let len = if size == 4 { word & 0xffff_ffff } else { word };
                    self.back(task, p, len.min(p.cap))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the call may have met a bad address: it has written less than it could, to a buffer that the guest cannot
    /// write to the end, or says so.
    fn may_be_cut(&self, task: &Task, result: i64) -> bool {
        let is_short = |p: &&Piece| match p.rule {
            Rule::Table(Len::Fixed(_), _) | Rule::All => false,
            Rule::Table(..) => p.cap > result as u64,
            Rule::Share(_) | Rule::Word(..) => true,
        };
        let is_cut = |p: &Piece| {
            let end = p.guest.saturating_add(p.cap);
            writable_until(&task.machine().memory().space, p.guest, end) < end
        };
        let mut written = self.pieces.iter().filter(|p| p.dir != Dir::In);
        match result {
            0.. => written.any(|p| is_short(&p) && is_cut(p)),
            _ => result == -i64::from(libc::EFAULT),
        }
    }

    /// A call that has met a bad address may have written before it, or to another buffer, more than its result says:
    /// whatever is there now is noted, as far as the guest may write there. Nobody else may be writing there.
    fn note_parts(&self, task: &mut Task) {
        for p in self.pieces.iter().filter(|p| p.dir != Dir::In) {
            let end = p.guest.saturating_add(p.cap.min(PARTS_MOST));
            let there = writable_until(&task.machine().memory().space, p.guest, end);
            task.log.wrote(p.guest, there - p.guest);
        }
    }

    fn message_len(&self, task: &Task, message: usize, result: i64) -> u64 {
        match self.lengths.get(message) {
            None => result as u64,
            Some(_) if message as i64 >= result => 0,
            Some(&at) => task
                .read::<4>(at)
                .map_or(0, |b| u32::from_le_bytes(b).into()),
        }
    }

    fn table(&self, task: &mut Task, call: &Call, p: &Piece, result: i64) -> Result<()> {
        let Rule::Table(out, when) = p.rule else {
            return Ok(());
        };
        if when.after(result) {
            let n = length(call, out, result).unwrap_or(0).min(p.cap);
            self.back(task, p, n)?;
        }
        Ok(())
    }

    fn back(&self, task: &mut Task, p: &Piece, n: u64) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        if self.bounced {
            // Natively, a bad address would have been EFAULT, before any effect; here the call has
            // been made already. The bytes are not stored.
            let _ = answered(task.write(p.guest, &self.arena[p.host..p.host + n as usize]))?;
        }
        task.log.wrote(p.guest, n);
        Ok(())
    }
}
