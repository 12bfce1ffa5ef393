//! `relive run`: the guest is translated, and nothing is logged. Threads run on all cores.
//!
//! Logs: nothing. Exact: nothing is replayed. Lock order: process state, then memory. It has no order
//! of its own, so the engine's own state must bear threads that run at the same time.

use relive_dbt::{AtPause, Ordered};
use relive_host::context::PLENTY;
use relive_host::reading::Use;
use relive_host::sys;
use relive_trace::{Kind, TapeId};

use super::live::kernel_state::KERNEL_WITH_LISTS;
use super::live::{self, code_changes, fork, host_threads, vfork};
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::failure::Result;
use crate::flow::Flow;
use crate::memory::content::{Content, ContentRequest};
use crate::mode::{
    Begun, Contents, HandedOn, Host, Lives, Mode, ModeTraits, Order, Outcomes, Reading, Signals,
    Turns,
};
use crate::shm::Logged;
use crate::siginfo::SigInfo;
use crate::tape::Tape;
use crate::task::Task;

/// The mode of `relive run`.
pub struct Run;

impl Mode for Run {
    fn traits(&self) -> ModeTraits {
        ModeTraits {
            together: true,
            multiplexed: false,
            confined: false,
            traces: false,
            samples: false,
            checkpoints: false,
            keeps: false,
            clocks: Use::Live,
            at_pause: AtPause::GoOn,
            operations: Ordered::Off,
        }
    }

    fn host(&self) -> &'static dyn Host {
        &KERNEL_WITH_LISTS
    }

    fn order(&self) -> &dyn Order {
        self
    }
}

impl Outcomes for Run {
    fn begin_call(&self, _: &mut Task, _: &Call) -> Result<Begun> {
        Ok(Begun::Live)
    }

    fn end_call(&self, task: &mut Task, _: &Call, _: i64, _: Option<&Answer>) -> Result<()> {
        task.at_event();
        Ok(())
    }

    fn plain_call(&self, _: &mut Task, nr: u64, args: &[u64; 6], _: usize) -> Logged<Option<i64>> {
        // SAFETY: by its row the call writes no memory and changes nothing that the host relies on.
        Ok(Some((unsafe { sys::syscall(nr, *args) }) as i64))
    }

    fn instruction(
        &self,
        task: &mut Task,
        _: u8,
        _: u8,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<[u64; 4]> {
        let values = values(task);
        task.at_event();
        Ok(values)
    }

    fn reading(
        &self,
        task: &mut Task,
        _: u32,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<Reading> {
        let [value, extra, ..] = values(task);
        Ok(Reading::Values([value, extra], false))
    }
}

impl Turns for Run {
    fn asleep(&self, task: &mut Task, enter: &mut dyn FnMut() -> i64) -> Result<i64> {
        Ok(task.while_away(enter))
    }

    fn others_see(&self, task: &Task) -> bool {
        !task.machine().registry.single()
    }

    fn begin_slice(&self, task: &mut Task) {
        task.ctx.grant_about(PLENTY, PLENTY / 8);
    }

    fn end_budget(&self, task: &mut Task) -> Result<Flow> {
        self.begin_slice(task);
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
        enter(task)
    }
}

impl Signals for Run {
    fn send_signal(
        &self,
        task: &mut Task,
        _: &Call,
        _: i32,
        send: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64> {
        send(task)
    }

    fn raised(&self, _: &mut Task, _: &SigInfo) -> Result<bool> {
        Ok(true)
    }

    fn ends_thread_alone(&self, task: &mut Task) -> Result<bool> {
        Ok(live::has_others(task))
    }

    fn is_being_killed(&self, _: &Task) -> bool {
        false
    }
}

impl Contents for Run {
    fn content(&self, wanted: ContentRequest<'_>) -> Result<Content> {
        Ok(live::content(wanted))
    }
}

impl Lives for Run {
    fn tape(&self, _: TapeId, _: &HandedOn) -> Result<Tape> {
        Ok(Tape::None)
    }

    fn clone_thread(&self, task: &mut Task, args: &CloneArgs, _: Option<&Answer>) -> Result<Reply> {
        host_threads::make(task, args)
    }

    fn fork(&self, task: &mut Task, args: &CloneArgs, _: Option<&Answer>) -> Result<Reply> {
        fork::fork_at_rest(task, args, self)
    }

    fn vfork(
        &self,
        task: &mut Task,
        _: &Call,
        args: &CloneArgs,
        _: Option<&Answer>,
    ) -> Result<Reply> {
        vfork::spawn(task, args, self)
    }

    fn thread_begins(&self, task: &mut Task, _: Kind<'_>) -> Result<()> {
        task.at_event();
        Ok(())
    }

    fn thread_ends(&self, _: &mut Task) {}

    fn process_ends(&self, _: &Task) {}

    fn handed_on(&self, _: &mut Task, _: bool) -> Result<HandedOn> {
        Ok(HandedOn::default())
    }

    fn executes(&self, _: &Task) {}
}

impl fork::Births for Run {}

impl vfork::Visits for Run {}

impl Order for Run {
    /// Code that was translated from the file is translated anew.
    fn change_files(
        &self,
        task: &mut Task,
        call: &Call,
        make: &mut dyn FnMut(&mut Task, &Call) -> Result<Reply>,
    ) -> Result<Reply> {
        code_changes::renew_code(task, call, make)
    }
}
