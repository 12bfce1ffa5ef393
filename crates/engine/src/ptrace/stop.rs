//! One stop of a tracee: it answers its tracer's requests until that lets it go on, or is gone. Other threads
//! of its process run meanwhile. No guest code of the tracee may run before the end of the stop.

use std::sync::atomic::Ordering;

use relive_host::signal::{Mask, set_mask};

use super::change::{self, Change};
use super::pokes;
use super::registers::{self, ORIG_RAX, Words};
use super::requests::{event, option, ptrace};
use super::slots::{SLOTS, Slot};
use super::standing::{LifeStep, state};
use crate::failure::{Failure, Result};
use crate::shm::Shm;
use crate::siginfo::{SigInfo, signo};
use crate::tape::SYNCHRONOUS;
use crate::task::Task;
use crate::traced::GoesOn;

/// Where a stopped tracee stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StopPlace {
    /// At a safe point.
    Safe,
    /// At its `syscall` instruction, before the call.
    Entry,
    /// Behind a call.
    Exit,
}

/// A stop, as the tracer is told of it.
pub struct Stop {
    /// Bits 8 and up of the status.
    pub code: u32,
    /// PTRACE_GETEVENTMSG
    pub message: u64,
    /// PTRACE_GETSIGINFO
    pub info: Option<SigInfo>,
    /// Where the tracee stands.
    pub place: StopPlace,
}

/// How a stop has ended.
pub struct Resumed {
    /// The signal that the tracer has given, 0: none. `None`: the tracer is gone.
    pub signal: Option<i32>,
    /// The siginfo, which the tracer may have changed.
    pub info: Option<SigInfo>,
    /// The call at hand is not made.
    pub skips: bool,
}

/// The state of a stopped tracee that its tracer sees and changes.
pub(super) struct View {
    pub(super) stop: Stop,
    pub(super) words: Words,
    shown: Words,
    pub(super) extended: Option<Vec<u8>>,
    /// Whether the position has a name.
    named: bool,
}

/// The slot of a traced task.
pub fn slot(task: &Task) -> Option<&'static Slot> {
    let at = task.traced.as_ref()?.slot;
    Some(SLOTS.of(crate::shm::shared()?).at(at))
}

/// The memory with the slots of tracees, if a task may trace other recorded processes.
pub(super) fn traces(task: &Task) -> Option<&'static Shm> {
    crate::shm::shared().filter(|_| task.traits().traces)
}

/// How the tracer has let a tracee go on.
pub fn goes_on(slot: &Slot) -> GoesOn {
    match slot.resume.load(Ordering::Acquire) {
        ptrace::SYSCALL => GoesOn::ToCall,
        ptrace::SINGLESTEP => GoesOn::Step,
        _ => GoesOn::Freely,
    }
}

/// Tells the tracer of a stop, or of the end, whose status it can wait for now.
pub fn tell(slot: &Slot, code: u32) {
    let tracer = slot.tracer.load(Ordering::Acquire);
    pokes::changed(tracer, slot.thread.load(Ordering::Acquire), code);
    if let Some(shm) = crate::shm::shared() {
        for thread in SLOTS.of(shm).waiting(tracer) {
            pokes::poke(tracer, thread);
        }
    }
}

/// Publishes a stop in a slot.
pub fn publish(slot: &Slot, code: u32, message: u64) {
    slot.message.store(message, Ordering::Release);
    // Its process may have ended meanwhile.
    if slot.take(LifeStep::Stops(code << 8 | 0x7f)) {
        tell(slot, code);
    }
}

/// Stops the task, which is traced, and returns when it goes on.
///
/// # Errors
/// An event is lost.
pub fn stop(task: &mut Task, stop: Stop) -> Result<Resumed> {
    let Some(slot) = slot(task) else {
        return Err(Failure::internal("only a tracee stops for its tracer"));
    };
    let mut view = View::of(task, stop);
    if let Some(traced) = &mut task.traced {
        traced.stops += 1;
    }
    if slot.is_orphan() {
        orphaned(task, slot);
        return Ok(view.resumed(None, false));
    }
    // A child in this task's place may have stopped for it.
    if slot.state() != state::STOPPED {
        publish(slot, view.stop.code, view.stop.message);
    }
    loop {
        view.rest(task, slot)?;
        if let Some(parent) = visited(task)
            && let Some(request) = parent.asked()
        {
            let result = view.answer_for_parent(task, parent, request)?;
            parent.answer(result);
        }
        if let Some(request) = slot.asked() {
            let result = view.answer(task, slot, request)?;
            slot.answer(result);
            continue;
        }
        match slot.state() {
            state::RUNNING => break,
            state::LISTENING if is_continued(task) => {
                view.stop.info = Some(trap_info(event::STOP, task));
                publish(slot, event::STOP << 8 | libc::SIGTRAP as u32, 0);
            }
            _ => {}
        }
        if is_left(task, slot) {
            // The kernel forgets the signal of a stop that the tracer has been told of.
            let told = slot.standing.get().status == 0;
            orphaned(task, slot);
            return Ok(view.resumed(told.then_some(0), false));
        }
    }
    let skips = view.finish(task)?;
    let signal = slot.signal.load(Ordering::Acquire) as i32;
    let how = slot.resume.load(Ordering::Acquire);
    if how == ptrace::DETACH {
        lose(task);
    } else if let Some(traced) = &mut task.traced {
        traced.goes_on = goes_on(slot);
    }
    Ok(view.resumed(Some(signal), skips))
}

/// Whether the stop ends without the tracer: that is gone, or the task is being killed.
fn is_left(task: &Task, slot: &Slot) -> bool {
    slot.is_orphan() || task.mode().is_being_killed(task)
}

/// The tracer is gone: the task goes on without it, or is killed if the tracer has asked for that.
fn orphaned(task: &mut Task, slot: &Slot) {
    let kills = slot.options.load(Ordering::Acquire) & option::EXITKILL != 0;
    lose(task);
    if kills {
        pokes::kill(std::process::id());
    }
}

/// The siginfo of a stop that no signal has caused.
pub fn trap_info(event: u32, task: &Task) -> SigInfo {
    let code = (event << 8) as i32 | libc::SIGTRAP;
    super::slots::sent_by(libc::SIGTRAP, code, task.process.pid)
}

/// The task is traced no more.
pub fn lose(task: &mut Task) {
    if let Some(slot) = slot(task) {
        slot.take(LifeStep::Vanishes);
    }
    task.traced = None;
    super::intake::note_signals(task);
}

/// The stopped parent in whose memory the task runs.
fn visited(task: &Task) -> Option<&'static Slot> {
    let (at, _) = task.traced.as_ref()?.parent.as_ref()?;
    let slot = SLOTS.of(crate::shm::shared()?).at(*at);
    (slot.state() == state::STOPPED).then_some(slot)
}

/// Whether SIGCONT has come, which the task takes in.
fn is_continued(task: &mut Task) -> bool {
    super::intake::take_in(task);
    set_mask(task.signals.mask.for_host());
    let mut held = task.signals.held.iter();
    held.any(|info| signo(info) == libc::SIGCONT)
}

impl View {
    fn of(task: &Task, stop: Stop) -> Self {
        let mut words = match stop.place {
            StopPlace::Entry => registers::at_call(task),
            _ => registers::shown(task),
        };
        if let (StopPlace::Exit, Some(traced)) = (stop.place, &task.traced)
            && let Some(nr) = traced.call
        {
            words[ORIG_RAX] = nr.into();
        }
        Self {
            named: stop.place != StopPlace::Entry,
            shown: words,
            words,
            extended: None,
            stop,
        }
    }

    fn resumed(self, signal: Option<i32>, skips: bool) -> Resumed {
        Resumed {
            signal,
            info: self.stop.info,
            skips,
        }
    }

    fn steps(&mut self, task: &Task) -> u32 {
        match std::mem::replace(&mut self.named, true) {
            true => task.steps,
            false => SYNCHRONOUS,
        }
    }

    pub(super) fn make(&mut self, task: &mut Task, changes: &[Change]) -> Result<()> {
        let steps = self.steps(task);
        change::make(task, steps, changes)
    }

    /// Sleeps until there is something to do, while other threads run.
    fn rest(&mut self, task: &mut Task, slot: &'static Slot) -> Result<()> {
        if !self.named && task.mode().others_see(task) {
            self.make(task, &[])?;
        }
        let mode = task.mode();
        let parent = visited(task);
        mode.rest(task, &mut |task| {
            let ready = || {
                slot.asked().is_some()
                    || slot.state() == state::RUNNING
                    || parent.is_some_and(|p| p.asked().is_some())
            };
            while !ready() {
                if let Some(shm) = crate::shm::shared() {
                    shm.need_supervisor()?;
                }
                match parent {
                    None => slot.sleep(ready),
                    Some(_) => slot.sleep_briefly(ready),
                }
                if slot.state() == state::LISTENING {
                    // SIGCONT must come through, also if the guest blocks it.
                    let mask = task.signals.mask.for_host().0;
                    set_mask(Mask(mask & !(1 << (libc::SIGCONT - 1))));
                    if task.ctx.pending != 0 || is_continued(task) {
                        break;
                    }
                }
                if is_left(task, slot) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Makes the changes of registers. Returns whether the call at hand is not made.
    fn finish(&mut self, task: &mut Task) -> Result<bool> {
        let mut changes = Vec::new();
        let mut skips = false;
        if self.words != self.shown {
            let words = match self.stop.place {
                StopPlace::Entry => registers::of_call(task, &self.words),
                _ => Some(self.words),
            };
            skips = words.is_none();
            changes.push(Change::Registers(Box::new(words.unwrap_or(self.words))));
        }
        if let Some(area) = self.extended.take() {
            changes.push(Change::Extended(area));
        }
        if !changes.is_empty() {
            self.make(task, &changes)?;
        }
        Ok(skips)
    }
}
