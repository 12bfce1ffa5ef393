//! An access to a shared map behind the end of its file, in replay. The replay's own memory for a file has no such
//! end, so the page of a recorded SIGBUS is made inaccessible until the thread has come there, and that which a call did not
//! find while the call is made. Must never make a fault that is not on the tape.

use relive_host::addr::PAGE;
use relive_trace::{Event, Kind};

use crate::call::answer::Answer;
use crate::closed_page::ClosedPage;
use crate::failure::Result;
use crate::modes::replay::hook_state;
use crate::siginfo::{SigInfo, fault_addr};
use crate::tape::SYNCHRONOUS;
use crate::task::Task;

/// Makes the page inaccessible if the next event of the task's tape is such a fault.
///
/// # Errors
/// It cannot be made so.
pub fn arm(task: &mut Task) -> Result<Option<Box<ClosedPage>>> {
    if !hook_state::has_mapped_shared() {
        return Ok(None);
    }
    let due = due(task).map(Box::new);
    if let Some(closed) = &due {
        task.machine().memory().close(closed.page)?;
    }
    Ok(due)
}

/// Makes a page inaccessible to a call that did not find it: one with a write of no bytes there.
///
/// # Errors
/// It cannot be made so.
pub fn close(task: &Task, answer: &Answer) -> Result<()> {
    missed(answer).try_for_each(|page| task.machine().memory().close(page))
}

/// Such a call has been made.
///
/// # Errors
/// The page cannot be made accessible again.
pub fn reopen(task: &Task, answer: &Answer) -> Result<()> {
    missed(answer).try_for_each(|page| task.machine().memory().reopen(page))
}

fn missed(answer: &Answer) -> impl Iterator<Item = u64> {
    let failed = answer.result == -i64::from(libc::EFAULT);
    let writes = failed.then(|| answer.writes()).into_iter().flatten();
    writes
        .filter(|(_, bytes)| bytes.is_empty())
        .map(|(addr, _)| addr & !(PAGE - 1))
}

/// The page of such a fault, if that is the next event.
fn due(task: &mut Task) -> Option<ClosedPage> {
    // A damaged tape is reported when the event is taken.
    if task.tape.outline().ok()??.syscall {
        return None;
    }
    let info = match task.tape.peek().ok()?? {
        Event {
            kind: Kind::Signal(s),
            ..
        } if s.steps == SYNCHRONOUS && i32::from(s.signo) == libc::SIGBUS => {
            SigInfo::try_from(s.siginfo).ok()?
        }
        _ => return None,
    };
    let page = fault_addr(&info) & !(PAGE - 1);
    let memory = task.machine().memory();
    memory.space.at(page).filter(|r| r.common || r.shared)?;
    Some(ClosedPage { page, info })
}
