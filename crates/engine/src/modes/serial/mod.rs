//! Serial recording: one guest thread of a process runs at a time, and every input that its own
//! state does not determine is logged.
//!
//! Logs: every call with its effects, values of instructions, signals and switches with their
//! positions, and the order in which threads held the [`baton`] ([`schedule`]). Exact: always. Lock
//! order, outermost first: the baton (a token), the group's baton (a token, [`crate::sharing`]), the
//! lock of the store of input, the output lock, process state, memory, the schedule. Only the holder
//! of the baton takes any of these.

pub mod baton;
mod checkpoint;
mod file_changes;
pub mod flips;
pub mod kill;
mod lifecycle;
mod meetings;
pub(in crate::modes) mod sampler;
pub(in crate::modes) mod sampling;
mod schedule;
mod sharing;
pub mod sites;
mod slices;
mod spinning;
mod succession;
mod taking_over;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use relive_dbt::{AtPause, Ordered};
use relive_host::reading::Use;
use relive_sched::{Fair, Flip, Flipping, Policy, Sampling, Seed};
use relive_trace::TapeId;

use super::checkpoints;
use super::checkpoints::checkpointing::Checkpointing;
use super::live::kernel_state::KERNEL;
use super::live::{self, recording};
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::reply::Reply;
use crate::failure::Result;
use crate::flow::Flow;
use crate::kernel::syscall_event;
use crate::memory::content::{Content, ContentRequest};
use crate::mode::{
    Begun, Contents, FileUse, HandedOn, Host, Mode, ModeTraits, Order, Outcomes, Reading, Signals,
    Turns,
};
use crate::sharing::processes::PROCESSES;
use crate::shm::{Logged, Shm};
use crate::siginfo::SigInfo;
use crate::tape::{Tape, TapeOut};
use crate::task::Task;
use crate::vforked;
use baton::Baton;
use flips::FLIPS;
use sampler::Sampler;
use schedule::Schedule;

/// The mode of `relive record`.
pub struct Serial {
    /// The right to run.
    baton: Baton,
    /// Where turns are logged.
    schedule: Mutex<Schedule>,
    shm: Shm,
    seed: Option<(u64, bool)>,
    /// Where the policy is one that looks at accesses.
    sampler: Option<Sampler>,
    /// Where there are to be checkpoints.
    checkpoints: Option<Checkpointing>,
    /// The recording is a sketch: other processes of it may have threads that run together.
    in_sketch: bool,
    /// The process has gone over from a mode in which its threads ran together, and the first turn is not logged yet.
    owes_turn: AtomicBool,
}

/// The start data of a recording process.
pub struct Start {
    /// Index of the process.
    pub process: u32,
    /// Index of the thread that runs first.
    pub slot: u32,
    /// Whether it goes on with another program.
    pub goes_on: bool,
    /// The seed, and the rings to go on with.
    pub handed_on: HandedOn,
}

impl Serial {
    /// The mode of one process.
    #[must_use]
    pub fn new(shm: Shm, start: Start) -> Self {
        let flips = FLIPS.of(&shm).of_process(start.process);
        let among = policy(start.handed_on.seed, !start.process, &[]);
        let policies = [policy(start.handed_on.seed, start.process, &flips), among];
        is_named(shm, start.process);
        let baton = Baton::new(policies, shm, start.process, start.slot);
        if start.goes_on {
            baton.after_exec();
        }
        let schedule = Schedule::attach(start.process, start.handed_on.schedule, shm);
        Self {
            baton,
            schedule: Mutex::new(schedule),
            shm,
            seed: start.handed_on.seed,
            sampler: matches!(start.handed_on.seed, Some((_, true))).then(Sampler::default),
            checkpoints: Checkpointing::of(shm, &start.handed_on),
            in_sketch: false,
            owes_turn: AtomicBool::new(false),
        }
    }

    /// The same of a process of a sketch, whose threads have turns.
    #[must_use]
    pub fn within_sketch(shm: Shm, start: Start) -> Self {
        Self {
            in_sketch: true,
            // A replay that has found the turns before them would have to begin among these.
            checkpoints: None,
            ..Self::new(shm, start)
        }
    }

    fn create_tape(&self, id: TapeId) -> Result<Tape> {
        Ok(Tape::Out(TapeOut::create(self.shm, id)?))
    }
}

/// Others find the process by its kernel id from now on.
fn is_named(shm: Shm, process: u32) {
    if let Some(slot) = PROCESSES.of(&shm).get(process) {
        slot.pid.store(crate::ids::process(), Ordering::Release);
    }
}

fn policy(seed: Option<(u64, bool)>, process: u32, flips: &[Flip]) -> Box<dyn Policy> {
    let (seed, chaos) = seed.unwrap_or_else(|| {
        let mut b = [0u8; 8];
        // A failure leaves a fixed seed, which is as good.
        let _ = rustix::rand::getrandom(&mut b, rustix::rand::GetRandomFlags::empty());
        (u64::from_le_bytes(b), false)
    });
    let seed = Seed(seed.wrapping_add(u64::from(process).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    if chaos && !flips.is_empty() {
        Box::new(Flipping::new(seed, flips))
    } else if chaos {
        Box::new(Sampling::new(seed))
    } else {
        Box::new(Fair::new(seed))
    }
}

impl Mode for Serial {
    fn traits(&self) -> ModeTraits {
        ModeTraits {
            together: false,
            multiplexed: false,
            confined: false,
            traces: !self.in_sketch,
            samples: self.sampler.is_some(),
            checkpoints: self.checkpoints.is_some(),
            keeps: true,
            clocks: Use::Record,
            at_pause: AtPause::Leave,
            operations: Ordered::Off,
        }
    }

    fn host(&self) -> &'static dyn Host {
        &KERNEL
    }

    fn order(&self) -> &dyn Order {
        self
    }
}

impl Outcomes for Serial {
    fn begin_call(&self, _: &mut Task, call: &Call) -> Result<Begun> {
        if let Some(sampler) = &self.sampler {
            sampler.call_begins(&self.baton, call);
        }
        Ok(Begun::Live)
    }

    fn end_call(
        &self,
        task: &mut Task,
        call: &Call,
        result: i64,
        _: Option<&Answer>,
    ) -> Result<()> {
        syscall_event::log(task, call, result)?;
        if self.checkpoints.is_some() && i64::from(call.nr) == libc::SYS_prctl {
            checkpoints::told_by_prctl(self.shm, call);
        }
        if let Some(sampler) = &self.sampler {
            sampler.call_ends(&self.baton, call, result);
        }
        self.ends_long_turn(task);
        Ok(())
    }

    fn plain_call(
        &self,
        task: &mut Task,
        nr: u64,
        args: &[u64; 6],
        used: usize,
    ) -> Logged<Option<i64>> {
        let result = recording::plain_call(task, nr, args, used)?;
        self.ends_long_turn(task);
        Ok(Some(result))
    }

    fn instruction(
        &self,
        task: &mut Task,
        number: u8,
        n: u8,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<[u64; 4]> {
        recording::instruction(task, number, n, values)
    }

    fn reading(
        &self,
        task: &mut Task,
        source: u32,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<Reading> {
        recording::reading(task, source, values)
    }
}

impl Turns for Serial {
    fn asleep(&self, task: &mut Task, enter: &mut dyn FnMut() -> i64) -> Result<i64> {
        self.sleeps_again(task)?;
        self.make_checkpoint_before_sleep(task)?;
        let (result, taken) = self.asleep_unlogged(task, enter)?;
        self.taken_back(task, taken)?;
        Ok(result)
    }

    fn rest(&self, task: &mut Task, wait: &mut dyn FnMut(&mut Task) -> Result<()>) -> Result<()> {
        self.rest_without_baton(task, wait)
    }

    fn others_see(&self, task: &Task) -> bool {
        self.baton.shared(task)
    }

    fn in_turn(&self, task: &Task, enter: &mut dyn FnMut() -> i64) -> i64 {
        if !self.baton.shared(task) {
            return enter();
        }
        self.baton.is_not_called();
        let result = enter();
        self.baton.can_be_called(task);
        result
    }

    fn found_nothing(&self, task: &mut Task) -> Result<()> {
        self.others_first(task)
    }

    fn begin_slice(&self, task: &mut Task) {
        self.new_slice(task);
    }

    fn woke(&self, task: &mut Task) {
        self.has_woken(task);
    }

    fn samples(&self, task: &Task) -> bool {
        task.exact && task.ctx.pending == 0 && self.sampler(task).is_some()
    }

    fn checkpoint(&self, task: &mut Task) -> Result<()> {
        self.make_checkpoint(task)
    }

    fn checkpoint_before_sleep(&self, task: &mut Task) -> Result<()> {
        self.make_checkpoint_before_sleep(task)
    }

    fn end_budget(&self, task: &mut Task) -> Result<Flow> {
        self.slice_end(task)
    }

    fn pause(&self, task: &mut Task) -> Result<()> {
        if self.baton.wanted() && task.ctx.pending == 0 {
            self.baton.spinning(task.slot);
            self.switch(task)?;
        }
        Ok(())
    }

    fn give_way(
        &self,
        task: &mut Task,
        _: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64> {
        if self.baton.wanted() {
            self.baton.spinning(task.slot);
        }
        self.others_first(task)?;
        Ok(0)
    }
}

impl Signals for Serial {
    fn send_signal(
        &self,
        task: &mut Task,
        call: &Call,
        sig: i32,
        send: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64> {
        self.send(task, call, sig, send)
    }

    fn raised(&self, _: &mut Task, _: &SigInfo) -> Result<bool> {
        Ok(true)
    }

    fn ends_thread_alone(&self, task: &mut Task) -> Result<bool> {
        Ok(live::has_others(task))
    }

    fn is_being_killed(&self, task: &Task) -> bool {
        match task.vforked {
            Some(_) => vforked::is_killed(task),
            None => !task.lodges && self.baton.is_being_killed(),
        }
    }
}

impl Contents for Serial {
    fn content(&self, wanted: ContentRequest<'_>) -> Result<Content> {
        Ok(live::content(wanted))
    }
}

impl Order for Serial {
    fn acquire_file(&self, task: &mut Task, call: &Call, used: &FileUse<'_>) -> Result<()> {
        self.claim(task, call, used)
    }

    fn release_files(&self, task: &Task) {
        self.release(task);
    }

    fn change_files(
        &self,
        task: &mut Task,
        call: &Call,
        make: &mut dyn FnMut(&mut Task, &Call) -> Result<Reply>,
    ) -> Result<Reply> {
        self.around_change(task, call, make)
    }
}
