//! SIGBUS in replay: an access to a shared map behind the end of its file. The replay's own
//! memory for a file has no such end, so the page of a recorded fault is made inaccessible
//! until the thread has come there. Must never make a fault that is not on the tape.

use relive_host::addr::PAGE;
use relive_trace::{Event, Kind};

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
