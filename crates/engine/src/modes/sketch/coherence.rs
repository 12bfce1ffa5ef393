//! All accesses to memory in order: a thread asks for the lines ([`crate::lines`]) of an instruction, of a call
//! or of a signal's frame, and says on its tape behind which marks of others it goes on. It makes a mark where it gives
//! lines up: at a tick, in front of an instruction, or in front of the event at hand. A process with one thread asks for
//! nothing; from its first clone on all do.
//!
//! Must never touch guest memory for a thread that has not got its lines, nor wait for a line with a lock held.

use std::sync::Arc;

use relive_dbt::{accesses, fetch};
use relive_host::call_out::call_out;
use relive_host::permissions::{self, SIZE, WHOLE, WRITES};
use relive_host::{GuestAddr, Reg, copy};
use relive_kabi::{Arg, Dir};
use smallvec::SmallVec;

use super::Sketch;
use super::marks::{make_mark, note_behind};
use crate::call::Call;
use crate::call::clone_args::CloneArgs;
use crate::exits::{self, Stepped};
use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::kernel::buffers::Buffers;
use crate::lines::{ClaimStep, Holder, LineRange, Lines, Mark, MemoryUse, lines_of};
use crate::mode::Turns;
use crate::registry::RestPlace;
use crate::task::Task;

/// Most bytes of a signal's frame, with what is left free above it.
const FRAME: u64 = 8192;

impl Sketch {
    /// The lines, if they are asked for now.
    fn asked_for(&self) -> Option<&Lines> {
        self.lines.as_ref().filter(|lines| lines.are_asked_for())
    }

    /// The task is about to make a thread: from the first one on, all threads ask for lines.
    pub(super) fn will_have_thread(&self, task: &mut Task, args: &CloneArgs) -> Result<()> {
        let Some(lines) = &self.lines else {
            return Ok(());
        };
        if !lines.are_asked_for() {
            self.begin_asking(lines, task)?;
        }
        let mut words = [args.parent_tid, args.child_tid];
        self.permit_words(task, &mut words)?;
        let (slot, child) = (task.slot, task.process.next_thread());
        let behind = lines.with(|directory| {
            directory.will_begin(child);
            directory.comes_behind(slot)
        });
        note_behind(task, &behind, true)
    }

    /// Only this thread is there: it has all that is mapped.
    fn begin_asking(&self, lines: &Lines, task: &mut Task) -> Result<()> {
        lines.make().map_err(no_memory)?;
        let holder = self.enrol(lines, task)?;
        lines.with(|directory| directory.may_have_any(holder.thread));
        holder.table.clear();
        permit_mapped(task, &holder);
        let mut memory = task.machine().memory();
        memory
            .translator
            .set_permissions(true)
            .map_err(Failure::setup)?;
        drop(memory);
        lines.ask_for_them(true);
        Ok(())
    }

    fn enrol(&self, lines: &Lines, task: &mut Task) -> Result<Arc<Holder>> {
        let none = lines.with(|directory| directory.none());
        let ids = (task.process.pid, task.tid);
        let holder = Holder::new(task.slot, ids, &task.ctx.permissions, none).map_err(no_memory)?;
        let holder = Arc::new(holder);
        task.holder = Some(Arc::clone(&holder));
        lines.with(|directory| directory.enrol(Arc::clone(&holder)));
        Ok(holder)
    }

    /// A thread begins.
    pub(super) fn enrol_if_asked_for(&self, task: &mut Task) -> Result<()> {
        match self.asked_for() {
            Some(lines) => self.enrol(lines, task).map(drop),
            None => Ok(()),
        }
    }

    /// A thread has ended.
    pub(super) fn withdraw_lines(&self, task: &mut Task) {
        if let (Some(lines), Some(holder)) = (&self.lines, task.holder.take()) {
            lines.with(|directory| directory.withdraw(holder.thread));
        }
    }

    /// In a forked child, which has one thread: it is permitted whatever it accesses, until it makes another one.
    pub(super) fn forget_lines(&self, task: &mut Task) {
        let (Some(lines), Some(holder)) = (&self.lines, &task.holder) else {
            return;
        };
        lines.ask_for_them(false);
        holder.looks_at_own();
        lines.with(|directory| directory.start_over());
    }

    /// All others are at rest, and take turns from here on: nobody asks for anything any more.
    pub(super) fn stop_asking(&self, task: &Task) -> Result<()> {
        let Some(lines) = self.asked_for() else {
            return Ok(());
        };
        lines.ask_for_them(false);
        lines.with(|directory| directory.dissolve());
        let mut memory = task.machine().memory();
        memory
            .translator
            .set_permissions(false)
            .map_err(Failure::setup)
    }

    /// The task stands in front of an instruction: a look at lines there has failed, or its code always leaves.
    pub(super) fn permit_instruction(&self, task: &mut Task) -> Result<Flow> {
        let (uses, whole) = uses_of_look(task)?;
        if self.permits_anything(task, &uses) {
            return Ok(Flow::Continue);
        }
        let claimed = self.claim(task, &lines_of(uses.iter().copied()), false)?;
        let is_asked = task.holder.as_ref().is_some_and(|h| h.has_been_asked());
        tracing::debug!(
            target: "lines",
            "{} looks in front of {:#x} at {uses:x?}: {claimed:?}{}",
            task.id(),
            task.ctx.rip,
            if is_asked { ", asked" } else { "" },
        );
        let here = (task.ctx.ticks(), task.ctx.rip);
        let gets_on = task.got_lines_at != here;
        match claimed {
            // Its code looked into an empty table. It has made an instruction since it got lines the last time.
            Claimed::Before if is_asked && gets_on && task.ctx.permit_what != 0 => {
                self.answer(task)?;
                return Ok(Flow::Continue);
            }
            Claimed::Before => {}
            Claimed::AtOnce | Claimed::Rested => {
                task.got_lines_at = here;
                if matches!(claimed, Claimed::AtOnce) && !is_asked {
                    return Ok(Flow::Continue);
                }
            }
        }
        // At rest it may have lost what else the instruction needs, its own bytes too, and so on for ever.
        let has_lines = whole && !matches!(claimed, Claimed::Rested);
        self.make_one(task, has_lines)
    }

    /// Makes the next instruction, before the task gives anything up. `has_lines`: the instruction's lines are there.
    fn make_one(&self, task: &mut Task, has_lines: bool) -> Result<Flow> {
        if !has_lines {
            self.permit_next(task)?;
        }
        if !task.ctx.has_budget() {
            // The step before has used it up.
            self.begin_slice(task);
        }
        let flow = match exits::step(task)? {
            Stepped::Made => Flow::Continue,
            Stepped::Handled { flow, .. } => flow,
        };
        if matches!(flow, Flow::Continue) {
            self.answer(task)?;
        }
        Ok(flow)
    }

    /// Where nobody asks for lines, as in a forked child, the code that looks at them is still there: it is permitted what
    /// lies around.
    fn permits_anything(&self, task: &Task, uses: &[MemoryUse]) -> bool {
        let holder = task.holder.as_ref().filter(|_| self.asked_for().is_none());
        let Some(holder) = holder.filter(|_| task.ctx.permit_what != 0) else {
            return false;
        };
        for range in lines_of(uses.iter().copied()) {
            holder.permit_around(range.lines());
        }
        true
    }

    /// The task is about to step an instruction.
    pub(super) fn permit_next(&self, task: &mut Task) -> Result<()> {
        if self.asked_for().is_none() {
            return Ok(());
        }
        let mut uses = uses_of_instruction(task)?;
        loop {
            let lines = lines_of(uses.iter().copied());
            if !matches!(self.claim(task, &lines, false)?, Claimed::Rested) {
                return Ok(());
            }
            // Another thread may have changed it meanwhile.
            let asked_for = std::mem::replace(&mut uses, uses_of_instruction(task)?);
            if uses == asked_for {
                return Ok(());
            }
        }
    }

    /// The task gives up what others ask it for, where it stands.
    pub(super) fn answer(&self, task: &mut Task) -> Result<()> {
        let Some(lines) = self.asked_for() else {
            return Ok(());
        };
        let asked = task.holder.as_ref().filter(|h| h.has_been_asked());
        let Some(thread) = asked.map(|holder| holder.thread) else {
            return Ok(());
        };
        let mark = make_mark(task, false)?;
        lines.with(|directory| directory.answer(thread, mark));
        Ok(())
    }

    /// The task is about to rest, in the call at hand (`event`) or where it stands: others may take its lines.
    pub(super) fn rests(&self, task: &mut Task, event: bool) -> Result<()> {
        let Some(lines) = self.asked_for() else {
            return Ok(());
        };
        let Some(holder) = task.holder.clone() else {
            return Ok(());
        };
        let mark = make_mark(task, event)?;
        rest(lines, &holder, mark);
        Ok(())
    }

    /// A child in its parent's memory is about to leave it, by the call at hand: its parent is at rest until it knows.
    pub(super) fn rests_for_good(&self, task: &mut Task) -> Result<()> {
        match task.leaves_for_good() && task.vforked.is_some() {
            true => self.rests(task, true),
            false => Ok(()),
        }
    }

    /// The task is about to fork, all others at rest: the child's memory has all that they have done, and nothing of what
    /// they do later.
    pub(super) fn claim_all(&self, task: &mut Task) -> Result<()> {
        match (self.asked_for(), &task.holder) {
            (Some(lines), Some(holder)) => {
                let thread = holder.thread;
                let behind = lines.with(|directory| directory.claim_all(thread));
                let behind = behind.ok_or_else(|| {
                    Failure::unsupported(
                        "a fork while a child in its parent's memory (vfork) is killed, with --mode coherence",
                    )
                })?;
                permit_mapped(task, holder);
                note_behind(task, &behind, true)
            }
            _ => Ok(()),
        }
    }

    /// It is back, and gets the memory of its call again.
    pub(super) fn permit_again(&self, task: &mut Task) -> Result<()> {
        let lines = lines_of(task.permitted.iter().copied());
        self.claim(task, &lines, true).map(drop)
    }

    /// Gets the memory of a call, as its row describes it.
    pub(super) fn permit_memory_of(&self, task: &mut Task, call: &Call) -> Result<()> {
        if self.asked_for().is_none() {
            return Ok(());
        }
        /// What a call uses hangs on memory that it uses: so often at most.
        const MOST: usize = 8;
        task.permitted.clear();
        for _ in 0..MOST {
            let uses = uses_of(task, call);
            if uses == task.permitted {
                break;
            }
            task.permitted = uses;
            self.permit_again(task)?;
        }
        Ok(())
    }

    /// Gets the memory into which the frame of a signal may go. Whether the task was at rest meanwhile.
    pub(super) fn permit_frame_of(&self, task: &mut Task) -> Result<bool> {
        if self.asked_for().is_none() {
            return Ok(false);
        }
        let below = |end: u64| MemoryUse {
            at: end.saturating_sub(FRAME),
            len: FRAME,
            writes: true,
        };
        let stack = &task.signals.altstack;
        let alternate = below(stack.sp.saturating_add(stack.size));
        let uses = [below(task.ctx.reg(Reg::Rsp)), alternate];
        let uses = uses.into_iter().filter(|used| used.at != 0);
        let marks = task.ctx.marks;
        self.claim(task, &lines_of(uses), false)?;
        Ok(task.ctx.marks != marks)
    }

    /// Gets words that the event at hand changes.
    pub(super) fn permit_words(&self, task: &mut Task, words: &mut [u64]) -> Result<()> {
        let uses = words.iter().filter(|at| **at != 0).map(|&at| MemoryUse {
            at,
            len: 8,
            writes: true,
        });
        let uses: Vec<MemoryUse> = uses.collect();
        self.claim(task, &lines_of(uses.into_iter()), true)
            .map(drop)
    }

    /// Gets lines, at rest while it waits for others.
    fn claim(&self, task: &mut Task, wants: &[LineRange], event: bool) -> Result<Claimed> {
        let Some(holder) = task.holder.clone() else {
            return Ok(Claimed::Before);
        };
        let mut claimed = Claimed::Before;
        while let Some(lines) = self.asked_for() {
            let permitted = |range: &LineRange| {
                let lacks = holder
                    .table
                    .first_not_permitted(range.lines(), range.writes);
                lacks.is_none()
            };
            if matches!(claimed, Claimed::Before) && wants.iter().all(permitted) {
                return Ok(claimed);
            }
            match lines.with(|directory| directory.claim(holder.thread, wants)) {
                ClaimStep::Done(behind) => {
                    note_behind(task, &behind, event)?;
                    if matches!(claimed, Claimed::Before) {
                        claimed = Claimed::AtOnce;
                    }
                    break;
                }
                ClaimStep::Waits(other, since) => {
                    claimed = Claimed::Rested;
                    let mark = make_mark(task, event)?;
                    rest(lines, &holder, mark);
                    wait(task, event, &holder, &other, since);
                }
            }
        }
        Ok(claimed)
    }
}

/// How a thread has come to lines.
#[derive(Clone, Copy, Debug)]
enum Claimed {
    /// It had them.
    Before,
    /// It got them, without a rest.
    AtOnce,
    /// It was at rest meanwhile.
    Rested,
}

/// Permits a thread all that is mapped and can be accessed.
fn permit_mapped(task: &Task, holder: &Holder) {
    let memory = task.machine().memory();
    let regions = memory.space.iter();
    for region in regions.filter(|r| r.prot != libc::PROT_NONE as u32) {
        let count = (region.end - region.start) >> permissions::LINE_SHIFT;
        holder
            .table
            .permit_all(permissions::line_of(region.start), count);
    }
}

/// The thread rests at its mark from here on, and gives up what it is asked for already.
fn rest(lines: &Lines, holder: &Holder, mark: Mark) {
    holder.rests(mark);
    if holder.has_been_asked() {
        lines.with(|directory| directory.answer(holder.thread, mark));
    }
}

/// Waits until it has been woken: soon, as the other one finds at its next access that it is asked; or else at its next tick.
fn wait(task: &mut Task, event: bool, holder: &Holder, other: &Holder, since: u32) {
    task.can_be_read();
    let member = task.member.as_ref();
    let registry = &task.machine().registry;
    let place = match event {
        _ if task.vforked.is_some() || task.leaves_for_good() => RestPlace::Unknown,
        true => RestPlace::MemoryOfCall,
        false => RestPlace::Instruction,
    };
    if let Some(member) = member {
        member.rests_at(place, task.address());
        registry.leave_for_kernel(member);
    }
    if !holder.spin(since) {
        let (pid, tid) = other.ids;
        call_out(pid, tid);
        while holder.wakings() == since {
            holder.sleep(since);
        }
    }
    if let Some(member) = member {
        registry.come_back(member);
    }
    holder.goes_on();
}

fn no_memory(errno: i32) -> Failure {
    Failure::setup(format!(
        "no memory for the permissions of a thread (errno {errno})"
    ))
}

/// The memory for which a look has failed, and whether that is all that the instruction accesses; that of the instruction
/// where there was no look.
fn uses_of_look(task: &Task) -> Result<(SmallVec<[MemoryUse; 1]>, bool)> {
    let (at, what) = (task.ctx.permit_at, task.ctx.permit_what);
    if what == 0 {
        return Ok((uses_of_instruction(task)?, true));
    }
    let looked_at = MemoryUse {
        at,
        len: what & SIZE,
        writes: what & WRITES != 0,
    };
    Ok((SmallVec::from_elem(looked_at, 1), what & WHOLE != 0))
}

/// The memory that the next instruction reads and writes, its own bytes too where they may be written.
fn uses_of_instruction(task: &Task) -> Result<SmallVec<[MemoryUse; 1]>> {
    let mut memory = task.machine().memory();
    let all = memory.with_code(true, |_, code| {
        let mut all = accesses(code, &task.ctx);
        all.extend(fetch(code, task.ctx.rip));
        all
    })?;
    tracing::debug!(target: "lines", "{} asks for the lines of {:#x}: {all:x?}", task.id(), task.ctx.rip);
    let all = all.iter().map(|access| MemoryUse {
        at: access.addr,
        len: access.len,
        writes: access.writes,
    });
    Ok(all.collect())
}

/// The memory that a call reads and writes, as it is at this moment.
fn uses_of(task: &Task, call: &Call) -> Vec<MemoryUse> {
    let mut uses = Vec::new();
    let mut add = |at: u64, len: u64, writes: bool| {
        if at != 0 && len != 0 {
            uses.push(MemoryUse { at, len, writes });
        }
    };
    match i64::from(call.nr) {
        libc::SYS_rt_sigreturn => add(task.ctx.reg(Reg::Rsp).saturating_sub(8), FRAME, false),
        // What others do with memory comes before it is gone, or behind that.
        libc::SYS_munmap
        | libc::SYS_mremap
        | libc::SYS_mprotect
        | libc::SYS_pkey_mprotect
        | libc::SYS_madvise => {
            add(call.args[0], call.args[1], true);
        }
        libc::SYS_mmap if call.int(3) & libc::MAP_FIXED != 0 => {
            add(call.args[0], call.args[1], true);
        }
        _ => {}
    }
    let Some(row) = call.row else {
        return uses;
    };
    let mut buffers = Buffers::none();
    buffers.collect(task, call);
    for (at, len, writes) in buffers.ranges() {
        add(at, len, writes);
    }
    for (i, arg) in row.args.iter().enumerate() {
        let arg = match arg {
            Arg::Select => call.sub.map_or(Arg::Hex, |sub| sub.arg),
            arg => *arg,
        };
        let at = call.args[i];
        let count = |argument: u8| u64::from(call.args[usize::from(argument)] as u32);
        match arg {
            Arg::Str => add(at, text_length(at), false),
            Arg::Iovec { count: n, .. } => add(at, 16 * count(n).min(1024), false),
            Arg::Msghdr { dir } => add_header(&mut add, at, dir),
            Arg::Mmsghdr { dir, count: n } => {
                for m in 0..count(n).min(1024) {
                    add_header(&mut add, at + 64 * m, dir);
                }
            }
            Arg::TempMask { .. } => add(at, 8, false),
            Arg::TempMaskPair if at != 0 => {
                add(at, 16, false);
                add(task.read_u64(at).unwrap_or(0), 8, false);
            }
            Arg::LengthAndBuffer => add(at, 16, true),
            _ => {}
        }
    }
    uses
}

/// A message's header, and the list that it leads to.
fn add_header(add: &mut impl FnMut(u64, u64, bool), at: u64, dir: Dir) {
    add(at, 56, dir != Dir::In);
    let word = |offset: u64| copy::read_u64(GuestAddr(at.wrapping_add(offset))).unwrap_or(0);
    add(word(16), 16 * word(24).min(1024), false);
}

/// Bytes of a text, with its end; as far as it can be read.
fn text_length(at: u64) -> u64 {
    const MOST: u64 = 4096;
    let mut len = 0;
    while at != 0 && len < MOST {
        match copy::read_array::<1>(GuestAddr(at + len)) {
            Ok([0]) => return len + 1,
            Ok(_) => len += 1,
            Err(_) => break,
        }
    }
    len
}
