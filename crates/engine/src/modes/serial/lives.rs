//! How recorded tasks and processes begin and end: their tapes, their places in the baton's queue, and
//! the slots that others ask them by.

use relive_trace::{Kind, TapeId};

use super::baton::membership::keepers;
use super::flips::FLIPS;
use super::schedule::Schedule;
use super::{Serial, is_named, policy};
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::failure::Result;
use crate::ids;
use crate::mode::{HandedOn, Lives};
use crate::modes::live::{fork, threads, vfork};
use crate::tape::{Tape, TapeOut};
use crate::task::Task;

impl Lives for Serial {
    fn tape(&self, id: TapeId, handed_on: &HandedOn) -> Result<Tape> {
        match handed_on.ring {
            Some(ring) => Ok(Tape::Out(TapeOut::attach(self.shm, ring, handed_on.logged))),
            None => self.create_tape(id),
        }
    }

    fn clone_thread(&self, task: &mut Task, args: &CloneArgs, _: Option<&Answer>) -> Result<Reply> {
        let reply = threads::make(task, args)?;
        if let (Some(sampler), Reply::Value(1..)) = (&self.sampler, &reply) {
            sampler.await_woken(&self.baton, 1);
        }
        Ok(reply)
    }

    fn fork(&self, task: &mut Task, args: &CloneArgs, _: Option<&Answer>) -> Result<Reply> {
        fork::fork(task, args, self)
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

    fn thread_begins(&self, task: &mut Task, start: Kind<'_>) -> Result<()> {
        if let Some(sampler) = &self.sampler {
            sampler.begin(task.index);
        }
        let taken = self.baton.take(task)?;
        self.turn(task, taken.before)?;
        task.record(start)
    }

    fn thread_ends(&self, task: &mut Task) {
        self.baton.release(task);
    }

    fn process_ends(&self, task: &Task) {
        match &task.vforked {
            None => {
                self.schedule().close();
                self.baton.leave(task);
            }
            // The parent's thread goes on, with the baton.
            Some(parent) => self.baton.keep([parent.keeper, 0]),
        }
    }

    fn handed_on(&self, task: &mut Task, alone: bool) -> Result<HandedOn> {
        let (ring, logged) = match &task.tape {
            Tape::Out(t) => (Some(t.ring), t.last),
            _ => (None, 0),
        };
        Ok(HandedOn {
            seed: self.seed,
            ring,
            logged,
            schedule: alone.then(|| self.schedule().ring()).flatten(),
            turns: true,
        })
    }

    fn executes(&self, task: &Task) {
        // The new host gives the group's baton up; it runs in the process's first thread.
        self.baton.keep([ids::thread_of(task.tid), ids::process()]);
    }
}

impl fork::Births for Serial {
    fn before_fork(&self, task: &mut Task, child: u32) -> Result<bool> {
        self.share_with_child(task, child)
    }

    fn while_quiet(&self, fork: &mut dyn FnMut()) {
        let frozen = self.baton.freeze();
        self.shm.begin_fork();
        fork();
        drop(frozen);
    }

    fn in_child(&self, task: &mut Task, child: u32, waits: bool) -> Result<()> {
        task.tape = self.create_tape(task.id())?;
        self.shm.end_fork();
        is_named(self.shm, child);
        *self.schedule() = Schedule::new(self.shm, child);
        self.baton.start_over(child);
        let flips = FLIPS.of(&self.shm).of_process(child);
        if !flips.is_empty() {
            self.baton.follow(policy(self.seed, child, &flips));
        }
        if waits {
            self.baton.child_is(child, Some(ids::process()));
            let taken = self.baton.first_turn(task)?;
            self.turn(task, taken.before)?;
        }
        Ok(())
    }

    fn in_parent(&self, child: u32, pid: Option<u32>) {
        self.baton.child_is(child, pid.map(ids::of));
        if pid.is_none() {
            self.shm.end_fork();
        }
    }
}

impl vfork::Visits for Serial {
    fn child_begins(&self, task: &mut Task) -> Result<()> {
        task.tape = self.create_tape(task.id())?;
        is_named(self.shm, task.process.index);
        self.baton.keep(keepers(task));
        Ok(())
    }

    fn child_left(&self, task: &mut Task) -> Result<()> {
        let taken = self.baton.regain(task)?;
        if taken.switched {
            // The child was killed while it slept, without the baton.
            self.turn(task, taken.before)?;
        }
        Ok(())
    }
}
