//! A replaying process, and where it is. Must never run guest code or bring an event about: that is
//! [`super::main_loop`]'s, with the stops of a run.

use crate::failure::Result;
use crate::flow::Flow;
use crate::guide::protocol::Ended;
use crate::modes::replay::epoch_check;
use crate::modes::replay::session::{self, Session};
use crate::task::Task;

/// A replaying process, and where it is.
pub struct Stepper {
    pub session: Session,
    /// The task whose turn it is; at the end, the last one that there was.
    pub task: Box<Task>,
    /// Turns that have been taken.
    pub turn: u64,
    /// Instructions since the last tick or event, if known.
    pub steps: Option<u64>,
    /// How the process has ended, if it has.
    pub ended: Option<Ended>,
}

impl Stepper {
    /// Before the first event of a process.
    pub fn new(session: Session, mut task: Box<Task>) -> Self {
        session::adopt(&mut task);
        Self {
            session,
            task,
            turn: 0,
            steps: Some(0),
            ended: None,
        }
    }

    /// All tasks that there are, the one whose turn it is first.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        let others = self.session.tasks.values().map(|task| &**task);
        std::iter::once(&*self.task).chain(others)
    }

    /// Goes on as the flow of an event says, if that is not simply on.
    pub fn change_turn(&mut self, flow: Flow) -> Result<()> {
        let parks = matches!(flow, Flow::Park);
        let (slot, process) = (self.task.slot, self.task.process.index);
        self.ended = self.session.settle(&mut self.task, flow)?;
        match self.ended {
            Some(ended) => {
                if ended == Ended::CutOff && !self.session.may_end_anywhere() {
                    session::check_cut_off(process)?;
                }
                epoch_check::check_ended()?;
            }
            None if parks || self.task.slot != slot => self.turn += 1,
            None => {}
        }
        Ok(())
    }
}
