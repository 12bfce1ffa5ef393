//! Threads and processes that calls have made while the stepper held its tasks: it takes them in behind
//! the event. Must cost nothing at an event that has made none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::own_schedule::TurnSchedule;
use crate::task::Task;

/// Threads and processes that have been made since the stepper last looked.
pub struct News {
    /// New threads, each of which gets its first turn from the schedule.
    pub born: Vec<Task>,
    /// In a forked child: the schedule of the process that it is now.
    pub became: Option<TurnSchedule>,
}

/// The news of this process. Process-wide: the mode makes threads while the stepper, which takes them in,
/// holds the session.
static NEWS: Mutex<News> = Mutex::new(News {
    born: Vec::new(),
    became: None,
});

/// Something was put into it: looked at behind each event, without a lock.
/// Process-wide: it belongs to the news.
static ANY: AtomicBool = AtomicBool::new(false);

fn news() -> MutexGuard<'static, News> {
    NEWS.lock().expect("no thread panics: panics abort")
}

/// A thread has been made.
pub fn add_task(child: Box<Task>) {
    news().born.push(*child);
    ANY.store(true, Ordering::Relaxed);
}

/// A forked child goes on with its own schedule.
pub fn become_child(turns: TurnSchedule) {
    news().became = Some(turns);
    ANY.store(true, Ordering::Relaxed);
}

/// Whether [`take`] has something.
#[inline]
pub fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Takes it.
pub fn take() -> Option<News> {
    if !any() {
        return None;
    }
    ANY.store(false, Ordering::Relaxed);
    let mut news = news();
    Some(News {
        born: std::mem::take(&mut news.born),
        became: news.became.take(),
    })
}
