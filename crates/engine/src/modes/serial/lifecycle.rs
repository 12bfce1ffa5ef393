//! How recorded tasks and processes begin and end: their tapes, their places in the baton's queue, and
//! the slots that others ask them by.

use relive_host::Reg;
use relive_trace::{Kind, TapeId};

use super::baton::membership::keepers;
use super::flips::FLIPS;
use super::schedule::Schedule;
use super::{Serial, is_named, policy};
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::elapsed::Elapsed;
use crate::failure::Result;
use crate::ids;
use crate::mode::{HandedOn, Lives};
use crate::modes::checkpoints::resting::RestingPlace;
use crate::modes::live::lodger::{self, Lodger};
use crate::modes::live::{fork, host_threads, vfork};
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
        let reply = host_threads::make(task, args)?;
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
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.forks();
        }
        vfork::spawn(task, args, self)
    }

    fn lodger(
        &self,
        task: &mut Task,
        args: &CloneArgs,
        _: Option<&Answer>,
    ) -> Result<Option<Reply>> {
        self.end_lodger(task, |l| l.left || !l.lives());
        if !lodger::is_possible(task, args) || !self.baton.has_room() {
            return Ok(None);
        }
        let lodger = match lodger::start(task, args)? {
            Ok(lodger) => lodger,
            Err(errno) => return Ok(Some(Reply::Value(-i64::from(errno)))),
        };
        let (index, pid) = (lodger.slot, lodger.pid);
        self.baton.lodges(lodger);
        // The slice at hand may be that of a thread that was alone.
        self.new_slice(task);
        task.log.extra.extend_from_slice(&index.to_le_bytes());
        Ok(Some(Reply::Value(pid.into())))
    }

    fn thread_begins(&self, task: &mut Task, start: Kind<'_>) -> Result<()> {
        if let Some(sampler) = &self.sampler {
            sampler.begin(task.index);
        }
        self.rests(task, RestingPlace::Start);
        let taken = self.baton.take(task)?;
        self.goes_on(task);
        self.turn(task, taken.before)?;
        task.record(start)
    }

    fn program_begins(&self, task: &Task) {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.begins(task.ctx.reg(Reg::Rsp));
        }
    }

    fn thread_ends(&self, task: &mut Task) {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.progress().ends(self.shm, task);
        }
        match task.lodges {
            true => self.baton.lodger_leaves(),
            // As the kernel would, by the signal that such a process asks for first.
            false => self.end_lodger(task, |l| l.creator == task.slot),
        }
        self.baton.release(task);
    }

    fn process_ends(&self, task: &Task) {
        match &task.vforked {
            None if task.lodges && !task.last => {
                task.machine().registry.ended();
                self.baton.lodger_leaves();
                self.baton.release(task);
            }
            None => {
                self.end_lodger(task, |l| l.slot != task.slot);
                self.schedule().close();
                self.baton.leave(task);
            }
            // The parent's thread goes on, with the baton.
            Some(parent) => {
                if let Some(checkpoints) = &self.checkpoints {
                    checkpoints.progress().visitor_ends(self.shm, task);
                }
                self.baton.keep([parent.keeper, 0]);
            }
        }
    }

    fn handed_on(&self, task: &mut Task, alone: bool) -> Result<HandedOn> {
        self.baton.is_not_called();
        let (ring, logged) = match &task.tape {
            Tape::Out(t) => (Some(t.ring), t.last),
            _ => (None, 0),
        };
        let past = match &self.checkpoints {
            None => Elapsed::default(),
            Some(own) if alone => own.progress().at(self.shm, task),
            Some(own) => own.progress().visitor_executes(self.shm, task),
        };
        Ok(HandedOn {
            seed: self.seed,
            ring,
            logged,
            schedule: alone.then(|| self.schedule().ring()).flatten(),
            turns: true,
            past,
        })
    }

    fn executes(&self, task: &Task) {
        self.end_lodger(task, |_| true);
        // The new host gives the group's baton up; it runs in the process's first thread.
        self.baton.keep([ids::thread_of(task.tid), ids::process()]);
    }
}

impl Serial {
    /// SIGKILL to the process that lodges in this memory, which dies between two of its turns.
    ///
    /// # Errors
    /// As the call.
    pub(super) fn kill_lodger(
        &self,
        task: &mut Task,
        call: &Call,
        send: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64> {
        if !task.lodges {
            self.end_lodger(task, |l| l.pid == call.int(0) as u32);
            return Ok(0);
        }
        task.flush_readings()?;
        task.machine().registry.ended();
        self.baton.lodger_leaves();
        self.baton.release(task);
        send(task)
    }

    /// Ends the process that lodges in this memory, if it is such a one.
    fn end_lodger(&self, task: &Task, which: impl Fn(&Lodger) -> bool) {
        if self.baton.end_lodger(which) {
            task.machine().registry.ended();
        }
    }
}

impl fork::Births for Serial {
    fn before_fork(&self, task: &mut Task, child: u32) -> Result<bool> {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.progress().forks(self.shm, task);
            checkpoints.forks();
        }
        self.share_with_child(task, child)
    }

    fn while_quiet(&self, fork: &mut dyn FnMut()) {
        let frozen = self.baton.freeze();
        self.shm.begin_fork();
        fork();
        drop(frozen);
    }

    fn in_child(&self, task: &mut Task, child: u32, waits: bool) -> Result<()> {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.start_over();
        }
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
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.progress().visitor_begins(self.shm, task);
        }
        is_named(self.shm, task.process.index);
        self.baton.keep(keepers(task));
        Ok(())
    }

    fn child_left(&self, task: &mut Task) -> Result<()> {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.progress().visitor_left(self.shm, task);
        }
        let taken = self.baton.regain(task)?;
        if taken.switched {
            // The child was killed while it slept, without the baton.
            self.turn(task, taken.before)?;
        }
        Ok(())
    }
}
