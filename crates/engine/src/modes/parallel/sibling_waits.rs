//! Waiting for other threads, at rest, and what happens when nobody could go on. A wait must never be silent and
//! endless: it ends when what it is for has happened, when the replay fails elsewhere, or with a failure that says
//! who waits for what.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use relive_host::sys;

use super::siblings::{Progress, SIBLINGS, Sibling};
use crate::failure::{Failure, FailureClass, Result};
use crate::modes::replay::report::divergence;
use crate::shm::shared;
use crate::task::Task;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// This operation of this thread.
    Operation(u32, u64),
    /// The same, before plain loads of the thread that may see it. A hint.
    Early(u32, u64),
    /// The thread has passed its mark with this number; 0: it has ended.
    Mark(u32, u64),
    /// All others have passed the moments that were over before this one. A hint.
    Moment(u64),
    /// The same, before the last ticks in front of it: a hint, and none while others wait for the thread itself.
    Late(u64),
    /// All others have come to the ends of their tapes.
    Ends,
    /// The output with this number is the next one.
    Output(u64),
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation(thread, op) | Self::Early(thread, op) => {
                write!(f, "operation {op} of thread {thread}")
            }
            Self::Mark(thread, 0) => write!(f, "the end of thread {thread}"),
            Self::Mark(thread, mark) => write!(f, "mark {mark} of thread {thread}"),
            Self::Moment(_) | Self::Late(_) => {
                f.write_str("events that were over before its next one")
            }
            Self::Ends => f.write_str("the other threads, to end the process"),
            Self::Output(order) => write!(f, "the outputs before number {order}"),
        }
    }
}

/// Looks at a want before the thread gives its processor up.
const LOOKS: u32 = 100;
/// Times that it offers the processor before it sleeps.
const OFFERS: u32 = 64;
/// Its sleeps.
const SLEEP: Duration = Duration::from_micros(50);
/// Looks between two looks whether anybody can go on.
const BETWEEN: u32 = 32;

/// The threads that wait, and for what. Process-wide: as the threads are.
static WAITS: Mutex<BTreeMap<u32, Want>> = Mutex::new(BTreeMap::new());

fn waits() -> MutexGuard<'static, BTreeMap<u32, Want>> {
    WAITS.lock().expect("no thread panics: panics abort")
}

/// Whether what the thread `me` wants has happened. Once it has, it stays so, but for hints.
pub fn has(me: u32, want: Want) -> bool {
    match want {
        Want::Operation(_, 0) | Want::Early(_, 0) => true,
        Want::Operation(thread, op) | Want::Early(thread, op) => {
            SIBLINGS.get(thread).is_some_and(|s| s.done() >= op)
        }
        Want::Mark(thread, mark) => SIBLINGS.get(thread).is_some_and(|s| {
            s.standing() == Progress::Over || mark != 0 && s.marks.load(Ordering::Acquire) >= mark
        }),
        Want::Moment(begin) => has_passed(me, begin),
        Want::Late(begin) => {
            has_passed(me, begin) || SIBLINGS.get(me).is_some_and(|me| me.is_wanted())
        }
        Want::Ends => others(me, |s| s.standing() != Progress::Runs),
        Want::Output(order) => {
            shared().is_none_or(|shm| shm.header().next_order.load(Ordering::Acquire) >= order)
        }
    }
}

fn has_passed(me: u32, begin: u64) -> bool {
    others(me, |s| s.upcoming.load(Ordering::Acquire) >= begin)
}

fn others(me: u32, test: impl Fn(&Sibling) -> bool) -> bool {
    SIBLINGS.all_alive(|s| s.thread == me || test(s))
}

/// Waits until it has. The caller holds no lock.
///
/// # Errors
/// It never will: a divergence. The replay has failed elsewhere.
pub fn wait(task: &mut Task, want: Want) -> Result<()> {
    for _ in 0..LOOKS {
        if has(task.slot, want) {
            return Ok(());
        }
        std::hint::spin_loop();
    }
    wait_long(task, want)
}

#[cold]
fn wait_long(task: &mut Task, want: Want) -> Result<()> {
    let me = task.slot;
    if let Want::Operation(thread, op) | Want::Early(thread, op) = want
        && let Some(other) = SIBLINGS.get(thread)
    {
        other.wants(op);
    }
    tracing::trace!(target: "parallel", "thread {me} at tick {}, operation {}, waits for {want}", task.ctx.ticks(), task.ctx.ops);
    waits().insert(me, want);
    let outcome = wait_on(task, want);
    waits().remove(&me);
    outcome
}

fn wait_on(task: &mut Task, want: Want) -> Result<()> {
    let mut looks = 0;
    while !has(task.slot, want) {
        task.while_away(&mut || {
            match looks < OFFERS {
                // SAFETY: offers the processor to others.
                true => drop(unsafe { sys::syscall(libc::SYS_sched_yield as u64, [0; 6]) }),
                false => std::thread::sleep(SLEEP),
            }
            0
        });
        looks += 1;
        if looks % BETWEEN == 0 {
            if shared().is_some_and(|shm| shm.failure().is_some()) {
                return Err(FailureClass::Elsewhere.into());
            }
            match stuck() {
                Stuck::No => {}
                Stuck::Hint(thread) if thread == task.slot => {
                    tracing::debug!(target: "parallel", "thread {thread} goes on before {want}");
                    return Ok(());
                }
                Stuck::Hint(_) => {}
                Stuck::For(text) => return Err(fails(task, &text)),
            }
        }
    }
    Ok(())
}

/// Whether nobody can go on.
enum Stuck {
    No,
    /// Nobody can, unless this thread goes on without the hint that it follows.
    Hint(u32),
    /// Nobody can: who waits for what.
    For(String),
}

fn stuck() -> Stuck {
    // Nobody begins to wait or ceases to under the lock. Those that do not wait come first: one that goes on may bring about what
    // another one waits for, and have ended when it is looked at.
    let waits = waits();
    let goes_on = |s: &Sibling| match s.standing() {
        Progress::Runs => !waits.contains_key(&s.thread),
        Progress::Rests => s.is_wanted(),
        Progress::Stays | Progress::Over => false,
    };
    if !SIBLINGS.all_alive(|s| !goes_on(s)) {
        return Stuck::No;
    }
    // Nobody does: nothing changes any more but that those that have what they want take themselves off the list.
    if waits.iter().any(|(&thread, &want)| has(thread, want)) {
        return Stuck::No;
    }
    // The weaker hints go first, and of moments the first.
    let hints = waits.iter().filter_map(|(&thread, want)| match want {
        Want::Early(..) | Want::Late(_) => Some((0, thread)),
        Want::Moment(begin) => Some((*begin, thread)),
        _ => None,
    });
    if let Some((_, thread)) = hints.min() {
        return Stuck::Hint(thread);
    }
    let lines = waits.iter().map(|(thread, want)| {
        let standing = match want {
            Want::Operation(other, _) => match SIBLINGS.get(*other) {
                None => ", which has not been made".to_owned(),
                Some(s) => match s.standing() {
                    Progress::Runs => format!(", which has made {}", s.done()),
                    _ => format!(", which has made {} and makes no more", s.done()),
                },
            },
            _ => String::new(),
        };
        format!("\n    thread {thread} waits for {want}{standing}")
    });
    Stuck::For(first_of(lines))
}

/// The first lines, and how many there are behind them: a failure has room for so many, and its remedy comes behind.
fn first_of(mut lines: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 8;
    let more = lines.len().saturating_sub(SHOWN);
    let mut text: String = lines.by_ref().take(SHOWN).collect();
    if more > 0 {
        text.push_str(&format!("\n    and {more} more wait"));
    }
    text
}

fn fails(task: &Task, text: &str) -> Failure {
    let recorded = format!("an order in which each thread goes on:{text}");
    divergence(task, &recorded, "no thread can go on")
}

#[cfg(test)]
mod tests {
    use super::first_of;

    #[test]
    fn a_crowd_that_waits_leaves_room_for_the_remedy() {
        let lines = |n: usize| first_of((0..n).map(|i| format!("\n    thread {i} waits")));
        assert_eq!(lines(2), "\n    thread 0 waits\n    thread 1 waits");
        let many = lines(64);
        assert_eq!(many.lines().count(), 10, "{many}");
        assert!(
            many.ends_with("thread 7 waits\n    and 56 more wait"),
            "{many}"
        );
    }
}
