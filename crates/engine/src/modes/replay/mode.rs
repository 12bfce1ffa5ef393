//! The mode of a replaying process. Must never ask the kernel for an outcome.

use relive_dbt::{AtPause, Ordered};
use relive_host::reading::Use;
use relive_host::signal::{KernelAction, Mask};
use relive_trace::{Bare, Kind, TapeId};

use super::linear::wanted;
use super::{
    answers, births, concurrency, finish, hook_state, mapped_copies, past_end_of_file,
    recorded_content, report,
};
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
use crate::ordered_sites;
use crate::registry::Registry;
use crate::shm::Logged;
use crate::siginfo::SigInfo;
use crate::tape::{Tape, digest};
use crate::task::Task;

/// The mode of `relive replay` and of all commands that look at a recording.
pub struct Replay;

/// The kernel keeps no state of a replayed thread.
pub struct NoHost {
    /// Whether threads are host threads, which the engine counts.
    pub counts: bool,
}

impl Host for NoHost {
    fn mask(&self, _: Mask) {}
    fn action(&self, _: i32, _: &KernelAction) {}
    fn wake(&self, _: u64) {}
    fn stop(&self, _: i32) {}
    fn leaves(&self, registry: &Registry) -> bool {
        self.counts && registry.ended()
    }
    fn robust_list(&self, _: u64, _: u64) {}
}

/// Operations are counted as where they were recorded.
impl Order for Replay {
    fn acquire(&self, task: &mut Task) -> Result<()> {
        task.ctx.ops += 1;
        Ok(())
    }

    fn takes_action(&self, task: &mut Task) -> Option<PrecedingOp> {
        task.ctx.ops += u64::from(ordered_sites::has_signals(crate::shm::shared()));
        None
    }

    fn change_words(
        &self,
        task: &mut Task,
        words: &mut [u64],
        change: &mut dyn FnMut(&mut Task) -> Result<()>,
    ) -> Result<()> {
        task.ctx.ops += words.len() as u64;
        change(task)
    }
}

impl Mode for Replay {
    fn traits(&self) -> ModeTraits {
        ModeTraits {
            together: false,
            multiplexed: true,
            confined: true,
            traces: false,
            samples: false,
            checkpoints: false,
            keeps: false,
            clocks: Use::Replay,
            at_pause: match ordered_sites::took_turns(crate::shm::shared()) {
                true => AtPause::Leave,
                false => AtPause::GoOn,
            },
            operations: match wanted::is_wanted()
                && ordered_sites::has_instructions(crate::shm::shared())
            {
                true => Ordered::Count,
                false => Ordered::Off,
            },
        }
    }

    fn host(&self) -> &'static dyn Host {
        &NoHost { counts: false }
    }

    fn order(&self) -> &dyn Order {
        self
    }
}

impl Outcomes for Replay {
    fn changed(&self, task: &mut Task) -> Result<bool> {
        answers::changed(task)
    }

    fn begin_call(&self, task: &mut Task, call: &Call) -> Result<Begun> {
        let begun = answers::answer(task, call)?;
        if let Begun::Told(answer) = &begun {
            past_end_of_file::close(task, answer)?;
        }
        Ok(begun)
    }

    fn end_call(
        &self,
        task: &mut Task,
        call: &Call,
        result: i64,
        told: Option<&Answer>,
    ) -> Result<()> {
        match told {
            Some(answer) => {
                past_end_of_file::reopen(task, answer)?;
                finish::finish(answer, task, call, result)
            }
            None => unreachable!("a replay is told of every call"),
        }
    }

    fn diverged(&self, task: &Task, expected: &str, actual: &str) -> Failure {
        report::divergence(task, expected, actual)
    }

    fn plain_call(
        &self,
        task: &mut Task,
        nr: u64,
        args: &[u64; 6],
        used: usize,
    ) -> Logged<Option<i64>> {
        if task.parked {
            return Ok(None);
        }
        let call = Bare {
            ticks: task.ctx.ticks(),
            digest: digest(&task.ctx),
            nr: nr as u32,
            args: &args[..used],
        };
        let Tape::In(tape) = &mut task.tape else {
            return Ok(None);
        };
        let result = tape.bare(&call);
        if result.is_some() {
            hook_state::count_event(task.machine());
        }
        Ok(result)
    }

    fn instruction(
        &self,
        task: &mut Task,
        number: u8,
        _: u8,
        _: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<[u64; 4]> {
        answers::instruction(task, number)
    }

    fn reads_by_event(&self, task: &mut Task, number: u8) -> Result<bool> {
        if task.tape.unread().is_some() {
            return Ok(false);
        }
        let event = task.tape.peek()?.map(|e| e.kind);
        Ok(matches!(event, Some(Kind::Instr { op, .. }) if op == number))
    }

    fn reading(
        &self,
        task: &mut Task,
        source: u32,
        _: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<Reading> {
        task.inexact();
        Ok(match answers::reading(task, source)? {
            // An event on the way has made it exact.
            Some(entry) => Reading::Values([entry.value, entry.extra.into()], task.exact),
            None => Reading::Over,
        })
    }
}

impl Turns for Replay {
    fn asleep(&self, _: &mut Task, _: &mut dyn FnMut() -> i64) -> Result<i64> {
        unreachable!("a replay makes no call of the guest's")
    }

    fn others_see(&self, _: &Task) -> bool {
        false
    }

    fn begin_slice(&self, _: &mut Task) {}

    fn end_budget(&self, _: &mut Task) -> Result<Flow> {
        Ok(Flow::Continue)
    }

    fn pause(&self, _: &mut Task) -> Result<()> {
        Ok(())
    }

    fn give_way(&self, _: &mut Task, _: &mut dyn FnMut(&mut Task) -> Result<i64>) -> Result<i64> {
        unreachable!("a replay makes no call of the guest's")
    }
}

impl Signals for Replay {
    fn send_signal(
        &self,
        _: &mut Task,
        _: &Call,
        _: i32,
        _: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64> {
        unreachable!("a replay makes no call of the guest's")
    }

    fn raised(&self, task: &mut Task, info: &SigInfo) -> Result<bool> {
        answers::expect_fault(task, info)
    }

    fn ends_thread_alone(&self, task: &mut Task) -> Result<bool> {
        answers::ends_thread(task)
    }

    fn is_being_killed(&self, _: &Task) -> bool {
        false
    }

    fn arm(&self, task: &mut Task) -> Result<Option<Box<ClosedPage>>> {
        past_end_of_file::arm(task)
    }
}

impl Contents for Replay {
    fn content(&self, wanted: ContentRequest<'_>) -> Result<Content> {
        recorded_content::content(&wanted)
    }

    fn shows_file(&self, file: u64, shown: Option<&KeptContent>, part: (u64, u64)) -> Result<()> {
        mapped_copies::shared_grows(file, shown, part)
    }

    fn wrote(&self, addr: u64, len: u64) {
        super::watching::wrote(addr, len);
    }
}

impl Lives for Replay {
    fn tape(&self, id: TapeId, _: &HandedOn) -> Result<Tape> {
        hook_state::task_tape(id)
    }

    fn clone_thread(
        &self,
        task: &mut Task,
        args: &CloneArgs,
        told: Option<&Answer>,
    ) -> Result<Reply> {
        births::thread(task, args, answer(told))
    }

    fn fork(&self, task: &mut Task, args: &CloneArgs, told: Option<&Answer>) -> Result<Reply> {
        births::fork(task, args, answer(told))
    }

    fn vfork(
        &self,
        task: &mut Task,
        call: &Call,
        args: &CloneArgs,
        told: Option<&Answer>,
    ) -> Result<Reply> {
        births::vfork(task, call, args, answer(told))
    }

    fn lodger(
        &self,
        task: &mut Task,
        args: &CloneArgs,
        told: Option<&Answer>,
    ) -> Result<Option<Reply>> {
        births::lodger(task, args, answer(told)).map(Some)
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
        concurrency::has_ended(pid)
    }
}

fn answer(told: Option<&Answer>) -> &Answer {
    told.expect("a replay is told of every call")
}
