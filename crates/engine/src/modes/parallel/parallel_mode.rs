//! The mode of a parallel replay: that of every replay ([`Replay`]), but for threads and their order. Must never ask
//! the kernel for an outcome.

use std::sync::atomic::Ordering;

use relive_dbt::{AtPause, Ordered};
use relive_host::reading::Use;
use relive_trace::{Kind, TapeId};

use super::followed::{await_followed, await_noted};
use super::newborn;
use super::siblings::SIBLINGS;
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::closed_page::ClosedPage;
use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::memory::content::{Content, ContentRequest, KeptContent};
use crate::mode::{
    Begun, Contents, HandedOn, Host, Lives, Mode, ModeTraits, Order, Outcomes, PrecedingOp,
    Reading, Signals, Turns,
};
use crate::modes::replay::mode::{NoHost, Replay};
use crate::shm::Logged;
use crate::siginfo::SigInfo;
use crate::tape::Tape;
use crate::task::Task;

/// The mode of `relive replay --parallel`.
pub struct Parallel;

/// Each operation waits for those that it follows. It counts as made when its call is over.
impl Order for Parallel {
    fn acquire(&self, task: &mut Task) -> Result<()> {
        Replay.acquire(task)?;
        holds(task, true);
        await_followed(task)
    }

    fn release(&self, task: &mut Task) {
        holds(task, false);
    }

    fn takes_action(&self, task: &mut Task) -> Option<PrecedingOp> {
        // It has waited in front of the event.
        Replay.takes_action(task)
    }

    fn change_words(
        &self,
        task: &mut Task,
        words: &mut [u64],
        change: &mut dyn FnMut(&mut Task) -> Result<()>,
    ) -> Result<()> {
        Replay.touch(task, words)?;
        await_followed(task)?;
        change(task)
    }
}

fn holds(task: &Task, holds: bool) {
    if let Some(me) = SIBLINGS.get(task.slot) {
        me.holds.store(holds, Ordering::Relaxed);
    }
}

impl Mode for Parallel {
    fn traits(&self) -> ModeTraits {
        ModeTraits {
            together: true,
            multiplexed: false,
            confined: true,
            traces: false,
            samples: false,
            checkpoints: false,
            keeps: false,
            clocks: Use::Replay,
            at_pause: AtPause::GoOn,
            operations: Ordered::Wait,
        }
    }

    fn host(&self) -> &'static dyn Host {
        &NoHost { counts: true }
    }

    fn order(&self) -> &dyn Order {
        self
    }
}

impl Outcomes for Parallel {
    fn changed(&self, task: &mut Task) -> Result<bool> {
        Replay.changed(task)
    }

    fn begin_call(&self, task: &mut Task, call: &Call) -> Result<Begun> {
        Replay.begin_call(task, call)
    }

    fn end_call(
        &self,
        task: &mut Task,
        call: &Call,
        result: i64,
        told: Option<&Answer>,
    ) -> Result<()> {
        Replay.end_call(task, call, result, told)
    }

    fn diverged(&self, task: &Task, expected: &str, actual: &str) -> Failure {
        Replay.diverged(task, expected, actual)
    }

    fn plain_call(
        &self,
        task: &mut Task,
        nr: u64,
        args: &[u64; 6],
        used: usize,
    ) -> Logged<Option<i64>> {
        Replay.plain_call(task, nr, args, used)
    }

    fn instruction(
        &self,
        task: &mut Task,
        number: u8,
        n: u8,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<[u64; 4]> {
        Replay.instruction(task, number, n, values)
    }

    fn reads_by_event(&self, task: &mut Task, number: u8) -> Result<bool> {
        Replay.reads_by_event(task, number)
    }

    fn reading(
        &self,
        task: &mut Task,
        source: u32,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<Reading> {
        Replay.reading(task, source, values)
    }
}

impl Turns for Parallel {
    fn asleep(&self, task: &mut Task, enter: &mut dyn FnMut() -> i64) -> Result<i64> {
        Replay.asleep(task, enter)
    }

    fn others_see(&self, task: &Task) -> bool {
        Replay.others_see(task)
    }

    fn begin_slice(&self, _: &mut Task) {}

    fn end_budget(&self, _: &mut Task) -> Result<Flow> {
        Ok(Flow::Continue)
    }

    fn pause(&self, _: &mut Task) -> Result<()> {
        Ok(())
    }

    fn give_way(
        &self,
        task: &mut Task,
        enter: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64> {
        Replay.give_way(task, enter)
    }
}

impl Signals for Parallel {
    fn send_signal(
        &self,
        task: &mut Task,
        call: &Call,
        sig: i32,
        send: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64> {
        Replay.send_signal(task, call, sig, send)
    }

    fn raised(&self, task: &mut Task, info: &SigInfo) -> Result<bool> {
        // The action that it finds is an operation of the present instruction.
        let next = task.ctx.ops + 1;
        await_noted(task, next)?;
        Replay.raised(task, info)
    }

    fn ends_thread_alone(&self, task: &mut Task) -> Result<bool> {
        Replay.ends_thread_alone(task)
    }

    fn is_being_killed(&self, task: &Task) -> bool {
        Replay.is_being_killed(task)
    }

    fn arm(&self, task: &mut Task) -> Result<Option<Box<ClosedPage>>> {
        Replay.arm(task)
    }
}

impl Contents for Parallel {
    fn content(&self, wanted: ContentRequest<'_>) -> Result<Content> {
        Replay.content(wanted)
    }

    fn shows_file(&self, file: u64, shown: Option<&KeptContent>, part: (u64, u64)) -> Result<()> {
        Replay.shows_file(file, shown, part)
    }

    fn wrote(&self, addr: u64, len: u64) {
        Replay.wrote(addr, len);
    }
}

impl Lives for Parallel {
    fn tape(&self, id: TapeId, handed_on: &HandedOn) -> Result<Tape> {
        Replay.tape(id, handed_on)
    }

    fn clone_thread(
        &self,
        task: &mut Task,
        args: &CloneArgs,
        told: Option<&Answer>,
    ) -> Result<Reply> {
        let told = told.ok_or_else(|| Failure::internal("a replay is told of every call"))?;
        newborn::thread(task, args, told)
    }

    fn fork(&self, _: &mut Task, _: &CloneArgs, told: Option<&Answer>) -> Result<Reply> {
        no_process(told)
    }

    fn vfork(&self, _: &mut Task, _: &Call, _: &CloneArgs, told: Option<&Answer>) -> Result<Reply> {
        no_process(told)
    }

    fn lodger(&self, _: &mut Task, _: &CloneArgs, told: Option<&Answer>) -> Result<Option<Reply>> {
        no_process(told).map(Some)
    }

    fn thread_begins(&self, _: &mut Task, _: Kind<'_>) -> Result<()> {
        Ok(())
    }

    fn thread_ends(&self, _: &mut Task) {}

    fn process_ends(&self, _: &Task) {}

    fn handed_on(&self, _: &mut Task, _: bool) -> Result<HandedOn> {
        Ok(HandedOn::default())
    }

    fn executes(&self, _: &Task) {}

    fn reaped(&self, pid: u32) -> Result<()> {
        Replay.reaped(pid)
    }
}

/// The result of a call that makes a process, if it made none.
fn no_process(told: Option<&Answer>) -> Result<Reply> {
    match told {
        Some(answer) if answer.result <= 0 => Ok(Reply::Value(answer.result)),
        _ => Err(Failure::unsupported(
            "a replay with --parallel makes no process: replay it without",
        )),
    }
}
