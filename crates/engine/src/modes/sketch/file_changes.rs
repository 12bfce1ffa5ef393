//! Calls that change files, of processes whose threads run together. *No such process changes a file that any
//! process of the recording maps shared*: one that is about to do so goes over to turns, where such changes are
//! ordered, and told to those that map the file. Nobody is asked to wait while the call is made; so a file that is
//! mapped at the same moment is found behind the call, and refused.

use super::Sketch;
use crate::call::Call;
use crate::call::reply::Reply;
use crate::failure::{Failure, Result};
use crate::kernel::changed_files::{self, FileOperand, PathTarget};
use crate::kernel::mapped::identity_at;
use crate::mode::Mode;
use crate::sharing::users::USERS;
use crate::task::Task;

/// The file that a call is about to change.
enum ChangedTarget {
    /// This one (an identity).
    File(u64),
    /// One that nobody can map, or that the call makes.
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
        // Claims that are counted in this are seen below.
        let since = users.settled_clock();
        let file = match users.any() {
            true => changed(task, call, change.file),
            false => ChangedTarget::Other,
        };
        let is_mapped = match file {
            ChangedTarget::File(file) => users.mentions(file),
            ChangedTarget::Other => false,
            ChangedTarget::Unknown => true,
        };
        if is_mapped {
            let turns = self.go_over(task)?;
            return turns.order().change_files(task, call, make);
        }
        let reply = make(task, call)?;
        if let Reply::Value(result) = reply
            && users.any()
            && let Some(after) = changed_files::changed(task, call, result)
            && (users.claimed_after(after, since) || !file.is(after) && users.mentions(after))
        {
            return Err(Failure::unsupported(format!(
                "{} changes a file that a process of the recording maps shared at the same moment: --mode sketch does not order that; record without it",
                call.name()
            )));
        }
        Ok(reply)
    }
}

impl ChangedTarget {
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
            PathTarget::Nothing | PathTarget::Other => ChangedTarget::Other,
        },
        // Nothing tells behind the call which file it was.
        FileOperand::Named(_) => ChangedTarget::Unknown,
    }
}
