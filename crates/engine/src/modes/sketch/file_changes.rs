//! Calls that change files, of processes whose threads run together. *No such process changes a file that any
//! process of the recording maps shared*: one that is about to do so goes over to turns, where such changes are
//! ordered, and told to those that map the file. One that maps the file at the same moment is found when the change
//! is announced, right in front of the kernel's call, and the file is looked up again. Only what cannot be announced
//! (a call that may sleep, a name that leads to another file by then) is found behind the call, and refused.

use relive_kabi::Moves;

use super::Sketch;
use crate::call::Call;
use crate::call::reply::Reply;
use crate::failure::{Failure, Result};
use crate::kernel::changed_files::{self, FileOperand, PathTarget};
use crate::kernel::mapped::identity_at;
use crate::mode::Mode;
use crate::sharing::changes::{CLAIMED, Intended, UNKNOWN_FILE};
use crate::sharing::users::USERS;
use crate::task::Task;

/// The file that a call is about to change.
enum ChangedTarget {
    /// This one (an identity).
    File(u64),
    /// One that nobody maps yet: the call makes it, or no file is mapped.
    New,
    /// One that nobody can map.
    Other,
    /// Its name may lead to another one when the call is made.
    Unknown,
}

impl Sketch {
    /// Makes a call by `make`, which may change a file.
    ///
    /// # Errors
    /// The file is mapped shared meanwhile, or as [`Sketch::go_over`].
    pub(super) fn around_change(
        &self,
        task: &mut Task,
        call: &Call,
        make: &mut dyn FnMut(&mut Task, &Call) -> Result<Reply>,
    ) -> Result<Reply> {
        let Some(change) = changed_files::find_mappable(task, call) else {
            return make(task, call);
        };
        let users = USERS.of(&self.shm);
        loop {
            // Claims that are counted in this are seen below.
            let since = users.settled_clock();
            let file = match users.any() {
                true => changed(task, call, change.file),
                false => ChangedTarget::New,
            };
            let is_mapped = match file {
                ChangedTarget::File(file) => users.mentions(file),
                ChangedTarget::New | ChangedTarget::Other => false,
                ChangedTarget::Unknown => true,
            };
            if is_mapped {
                let turns = self.go_over(task)?;
                return turns.order().change_files(task, call, make);
            }
            task.intended = file.announced(call).map(|file| Intended {
                shm: self.shm,
                file,
                since,
            });
            let is_intended = task.intended.is_some();
            let reply = make(task, call)?;
            // Some calls are made in ways that announce nothing.
            let is_announced = is_intended && task.intended.take().is_none();
            let Reply::Value(result) = reply else {
                return Ok(reply);
            };
            if is_announced && result == CLAIMED {
                task.log.clear();
                continue;
            }
            if users.any()
                && let Some(after) = changed_files::changed(task, call, result)
                && (!is_announced && users.claimed_after(after, since)
                    || !file.is(after) && users.claimed_until(after, since))
            {
                return Err(Failure::unsupported(format!(
                    "{} changes a file that a process of the recording maps shared at the same moment: --mode sketch does not order that; record without it",
                    call.name()
                )));
            }
            return Ok(reply);
        }
    }
}

impl ChangedTarget {
    /// The file to announce, for a call that does not sleep: nobody may wait for one that does.
    fn announced(&self, call: &Call) -> Option<u64> {
        let from_pipe = matches!(call.row.map(|r| r.moves), Some(Moves::ByPipe { .. }));
        match *self {
            _ if from_pipe => None,
            Self::File(file) => Some(file),
            Self::New => Some(UNKNOWN_FILE),
            Self::Other | Self::Unknown => None,
        }
    }

    fn is(&self, file: u64) -> bool {
        matches!(self, Self::File(known) if *known == file)
    }
}

fn changed(task: &Task, call: &Call, operand: FileOperand) -> ChangedTarget {
    match operand {
        FileOperand::Descriptor(argument) => {
            identity_at(call.arg(argument) as i32).map_or(ChangedTarget::Other, ChangedTarget::File)
        }
        FileOperand::Opened(_) => match changed_files::named(task, call) {
            PathTarget::File(file, _) => ChangedTarget::File(file),
            PathTarget::Nothing => ChangedTarget::New,
            PathTarget::Other => ChangedTarget::Other,
        },
        // Nothing tells behind the call which file it was.
        FileOperand::Named(_) => ChangedTarget::Unknown,
    }
}
