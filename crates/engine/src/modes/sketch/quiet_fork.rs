//! How tasks and processes begin and end in a sketch: their tapes, and all threads at rest while one forks.

use std::sync::atomic::Ordering;

use relive_host::{Reg, order};
use relive_trace::{Kind, TapeId};

use super::Sketch;
use super::pauses::Pauses;
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::course::Course;
use crate::elapsed::Elapsed;
use crate::failure::{Failure, Result};
use crate::mode::{HandedOn, Lives, Order};
use crate::modes::live::{fork, host_threads, vfork};
use crate::tape::{Tape, TapeOut};
use crate::task::Task;

impl Sketch {
    fn create_tape(&self, id: TapeId) -> Result<Tape> {
        let tape = TapeOut::create(self.shm, id)?;
        Ok(self.timed(tape))
    }

    /// The tape with moments.
    fn timed(&self, mut tape: TapeOut) -> Tape {
        tape.course = Some(Course::new(self.company, self.lines.is_none()));
        Tape::Out(tape)
    }
}

impl Lives for Sketch {
    fn tape(&self, id: TapeId, handed_on: &HandedOn) -> Result<Tape> {
        match handed_on.ring {
            Some(ring) => Ok(self.timed(TapeOut::attach(self.shm, ring, handed_on.logged))),
            None => self.create_tape(id),
        }
    }

    fn clone_thread(&self, task: &mut Task, args: &CloneArgs, _: Option<&Answer>) -> Result<Reply> {
        self.company.store(true, Ordering::Relaxed);
        self.will_have_thread(task, args)?;
        // It is awake from its beginning on.
        self.will_wake(task);
        let reply = host_threads::make(task, args)?;
        if !matches!(reply, Reply::Value(1..)) {
            self.sleeps_for_good(task);
        }
        Ok(reply)
    }

    fn fork(&self, task: &mut Task, args: &CloneArgs, told: Option<&Answer>) -> Result<Reply> {
        let shares = task
            .machine()
            .memory()
            .space
            .iter()
            .any(|r| r.shared && r.common);
        match shares {
            true => self.go_over(task)?.fork(task, args, told),
            false => fork::fork_at_rest(task, args, self),
        }
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
        // Others go on beside the child, and one that ends the process or its program waits for it.
        task.machine().registry.visitor_comes();
        self.release(task);
        let reply = vfork::spawn(task, args, self);
        task.machine().registry.visitor_goes();
        let reply = reply?;
        if matches!(reply, Reply::Value(1..)) {
            // The child counts in its parent's place, and may have been killed in the midst of what its tape does not have.
            task.log
                .extra
                .extend_from_slice(&task.ctx.ops.to_le_bytes());
        }
        Ok(reply)
    }

    fn thread_begins(&self, task: &mut Task, start: Kind<'_>) -> Result<()> {
        self.enrol_if_asked_for(task)?;
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
        self.withdraw_lines(task);
        self.release(task);
        self.sleeps_for_good(task);
    }

    fn process_ends(&self, task: &Task) {
        self.leaves_files(task.process.index);
    }

    fn handed_on(&self, task: &mut Task, _: bool) -> Result<HandedOn> {
        // The event is the new program's to log.
        let ticks = task.ctx.ticks();
        let (ring, logged) = match &mut task.tape {
            Tape::Out(t) => {
                t.moment(ticks, true)?;
                (Some(t.ring), t.last)
            }
            _ => (None, 0),
        };
        Ok(HandedOn {
            seed: self.pauses.as_ref().map(Pauses::seed),
            ring,
            logged,
            past: match &self.checkpoints {
                Some(own) => own.progress().at(self.shm, task),
                None => Elapsed::default(),
            },
            ..HandedOn::default()
        })
    }

    fn executes(&self, _: &Task) {}
}

impl fork::Births for Sketch {
    /// The child reads the files that its parent reads through maps.
    fn before_fork(&self, task: &mut Task, child: u32) -> Result<bool> {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.progress().forks(self.shm, task);
            checkpoints.forks();
        }
        let files: Vec<u64> = {
            let memory = task.machine().memory();
            let read = memory.space.iter().filter(|r| r.shared && r.inode != 0);
            read.map(|r| r.inode).collect()
        };
        self.will_begin(child);
        for file in files {
            // Nobody writes it: the parent would have turns.
            self.claim_file(file, child, false)?;
        }
        match self.lines {
            Some(_) => self.claim_all(task)?,
            None => self.junctures.comes(task)?,
        }
        Ok(false)
    }

    fn while_quiet(&self, fork: &mut dyn FnMut()) {
        self.shm.begin_fork();
        fork();
    }

    fn in_child(&self, task: &mut Task, _: u32, _: bool) -> Result<()> {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.start_over();
        }
        self.company.store(false, Ordering::Relaxed);
        self.begins_alone(task.process.index);
        self.shared.forget();
        self.actions.forget();
        self.junctures.forget();
        task.ctx.ops = 0;
        task.ctx.marks = 0;
        task.ctx.order_id = task.slot + 1;
        self.forget_lines(task);
        order::forget()
            .map_err(|e| Failure::internal(format!("the objects are not forgotten: errno {e}")))?;
        task.tape = self.create_tape(task.id())?;
        self.shm.end_fork();
        Ok(())
    }

    fn in_parent(&self, child: u32, pid: Option<u32>) {
        if pid.is_none() {
            self.leaves_files(child);
            self.shm.end_fork();
        }
    }
}

impl vfork::Visits for Sketch {
    fn child_begins(&self, task: &mut Task) -> Result<()> {
        task.tape = self.create_tape(task.id())?;
        Ok(())
    }

    /// It has left in the midst of a call of its own.
    fn child_left(&self, task: &mut Task) -> Result<()> {
        self.release(task);
        Ok(())
    }
}
