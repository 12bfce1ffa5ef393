//! What the next event of a thread says about turns, read off it once. Must never be kept longer than that event is the
//! next one.

use relive_kabi as kabi;
use relive_trace::{Ending, Event, Kind, Origin, Syscall};

use crate::call::answer::child_index;

/// The next event of a thread, as far as it decides when it is due.
#[derive(Clone, Copy, Debug)]
pub struct Upcoming {
    /// Its ticks.
    pub ticks: u64,
    /// The thread can wait in front of it for its turn: of a call, or of what happens to it at a position.
    pub waits: bool,
    /// It ends its thread or program.
    pub ends: bool,
    /// The call found that its word had changed since the thread had looked.
    pub changed: bool,
    /// The call concerns its thread alone.
    pub is_private: bool,
    /// The thread that the call has made, if it did: its index and its recorded id.
    pub made: Option<(u32, u32)>,
    /// The number of the output that the call has made.
    pub output: Option<u64>,
    /// The thread begins within a call of its parent's.
    pub begins_in_call: bool,
}

impl Upcoming {
    /// Of an event.
    pub fn of(event: &Event<'_>) -> Self {
        let call = match &event.kind {
            Kind::Syscall(call) => Some(call),
            _ => None,
        };
        Self {
            ticks: event.ticks,
            waits: call.is_some() || matches!(event.kind, Kind::Signal(_) | Kind::Switch { .. }),
            ends: match event.kind {
                Kind::End { how, .. } => how != Ending::Killed,
                Kind::Exec(_) => true,
                _ => false,
            },
            changed: call.is_some_and(|call| found_a_change(call.nr, call.result)),
            is_private: call.is_some_and(|call| is_private(call.nr)),
            made: call.and_then(newborn),
            output: call.and_then(|call| call.order.filter(|_| call.stream != 0)),
            begins_in_call: matches!(&event.kind, Kind::Start(start) if start.origin == Origin::Vfork),
        }
    }
}

/// Whether a call with this result is one that compares a word with what its caller has seen there, and found
/// another value (futex(2), `EAGAIN`).
fn found_a_change(nr: u32, result: i64) -> bool {
    i64::from(nr) == libc::SYS_futex && result == -i64::from(libc::EAGAIN)
}

/// The thread or process that a call has made: its index and its recorded id.
fn newborn(call: &Syscall<'_>) -> Option<(u32, u32)> {
    let makes = matches!(i64::from(call.nr), libc::SYS_clone | libc::SYS_clone3);
    let id = u32::try_from(call.result).ok()?;
    (makes && id > 0).then(|| (child_index(call.extra), id))
}

/// Whether a call tells nobody anything, and its caller nothing that others have done.
fn is_private(nr: u32) -> bool {
    kabi::row(nr.into()).is_some_and(kabi::Row::is_private)
}
