//! The current task of a thread: the one whose future is polled. It must be back in its place whenever
//! the poll is over, by a panic too.

use std::cell::RefCell;

use crate::task::Task;

thread_local! {
    static CURRENT: RefCell<Option<Task>> = const { RefCell::new(None) };
}

/// A task is the current one for as long as this lives; then it is back in its place. It is moved and not
/// cloned, as this comes with every poll of every task.
pub(crate) struct Entered<'a> {
    /// `None`: there is nothing to be entered.
    home: Option<&'a mut Option<Task>>,
    before: Option<Task>,
}

impl<'a> Entered<'a> {
    pub(crate) fn new(home: &'a mut Option<Task>) -> Self {
        let before = match home.is_some() {
            // While the thread ends there is no current task any more.
            true => CURRENT.try_with(|current| current.replace(home.take())),
            false => return Self::nothing(),
        };
        match before {
            Ok(before) => Self {
                home: Some(home),
                before,
            },
            Err(_) => Self::nothing(),
        }
    }

    fn nothing() -> Self {
        Self {
            home: None,
            before: None,
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(home) = &mut self.home {
            **home = CURRENT.replace(self.before.take());
        }
    }
}

impl Task {
    /// The task that runs; `None` while off, and outside of every task.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }
}
