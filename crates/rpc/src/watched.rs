//! State that the debug mode watches: an ordinary value behind an ordinary mutex, whose accesses it sees.

use std::sync::{Arc, Mutex};

use crate::checker::{Checker, Finding, Watched};
use crate::lane::lock;
use crate::name::Name;
use crate::outcome::OpenError;
use crate::session::Session;
use crate::task::Task;

/// A value that handlers share. **It orders nothing**: an exclusive entry point, a group or a
/// [`crate::Lock`] around its accesses does, and the debug mode tells where none is. Clones are the same
/// value.
pub struct State<T> {
    value: Arc<Mutex<(T, Watched)>>,
    name: Name,
    checker: Option<Arc<Checker>>,
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            name: self.name.clone(),
            checker: self.checker.clone(),
        }
    }
}

impl Session {
    /// A value that the debug mode watches ([`Session::check`]); its name is for messages.
    pub fn state<T>(&self, name: &str, value: T) -> Result<State<T>, OpenError> {
        Ok(State {
            value: Arc::new(Mutex::new((value, Watched::default()))),
            name: Self::name(name)?,
            checker: self.checker(),
        })
    }

    /// The findings of the debug mode, each state once.
    pub fn findings(&self) -> Vec<Finding> {
        let checker = self.checker();
        checker.map_or_else(Vec::new, |checker| checker.findings())
    }
}

impl<T> State<T> {
    /// Reads it.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        self.with(false, |value| look(value))
    }

    /// Changes it.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        self.with(true, change)
    }

    fn with<R>(&self, writes: bool, work: impl FnOnce(&mut T) -> R) -> R {
        let mut locked = lock(&self.value);
        let (value, watched) = &mut *locked;
        if let Some(checker) = &self.checker {
            let task = Task::current().map(|task| task.id());
            checker.access(&self.name, watched, task, writes);
        }
        work(value)
    }
}
