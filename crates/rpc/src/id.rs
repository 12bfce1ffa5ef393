//! Identity: tasks are named by their creation, requests by the task that sends them.
//!
//! An identity depends on the sender's own deeds alone, so that it is minted without a look at any
//! other task, and is the same in every equivalent run. It is plain data: it says nothing of time.

use std::fmt;

use crate::name::{Name, NameId};

/// Steps of a path that are kept as such.
pub const STEPS_MAX: usize = 6;

/// Where a process's first task of a family comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Named by the program itself (`Session::root`).
    Root(NameId),
    /// The handler of the request that a gate received at this place of its order, from 0.
    Gate(NameId, u64),
    /// Not a task of any recorded process: the request came to this gate from outside.
    Outside(NameId),
}

/// The way from the origin to a task: each step is the how-manieth child it is.
///
/// Of a long way the last steps are kept, and all before them as one hash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    folded: u64,
    len: u8,
    steps: [u32; STEPS_MAX],
}

impl Path {
    /// The way with one more step.
    pub fn child(self, step: u32) -> Self {
        let mut path = self;
        if usize::from(self.len) == STEPS_MAX {
            path.folded = fold(self.folded, self.steps[0]);
            path.steps.rotate_left(1);
            path.steps[STEPS_MAX - 1] = step;
        } else {
            path.steps[usize::from(self.len)] = step;
            path.len += 1;
        }
        path
    }

    /// The steps that are kept.
    pub fn steps(&self) -> &[u32] {
        &self.steps[..usize::from(self.len)]
    }

    /// All steps before those, as a hash; 0: there are none.
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// From its parts; `None` if no way has them.
    pub fn from_parts(folded: u64, steps: &[u32]) -> Option<Self> {
        if steps.len() > STEPS_MAX || (folded != 0 && steps.len() != STEPS_MAX) {
            return None;
        }
        let mut path = Self {
            folded,
            len: steps.len() as u8,
            ..Self::default()
        };
        path.steps[..steps.len()].copy_from_slice(steps);
        Some(path)
    }

    /// Whether it leads nowhere: the first task of its origin.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Never 0, which stands for "nothing folded".
fn fold(before: u64, step: u32) -> u64 {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&before.to_le_bytes());
    bytes[8..].copy_from_slice(&step.to_le_bytes());
    xxhash_rust::xxh3::xxh3_64(&bytes).max(1)
}

/// A task of any process of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The process, by its name.
    pub process: NameId,
    /// The first task of its family.
    pub origin: Origin,
    /// The way from there.
    pub path: Path,
}

/// A request: the `number`-th operation of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Which task sends it.
    pub task: TaskId,
    /// Its operations are numbered from 0, requests, primitives and acquisitions alike.
    pub number: u64,
}

/// Knows the names behind the numbers.
pub trait Names {
    /// The name of a number, if it is known.
    fn name(&self, id: NameId) -> Option<&Name>;
}

/// Knows none.
impl Names for () {
    fn name(&self, _: NameId) -> Option<&Name> {
        None
    }
}

/// Something as text, with names where they are known.
pub struct Named<'a, T>(pub T, pub &'a dyn Names);

impl fmt::Display for Named<'_, NameId> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1.name(self.0) {
            Some(name) => name.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

impl fmt::Display for Named<'_, TaskId> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(task, names) = self;
        write!(f, "{}/", Named(task.process, *names))?;
        match task.origin {
            Origin::Root(name) => write!(f, "{}", Named(name, *names))?,
            Origin::Gate(name, place) => write!(f, "{}#{place}", Named(name, *names))?,
            Origin::Outside(name) => write!(f, "{}<outside", Named(name, *names))?,
        }
        if task.path.folded != 0 {
            write!(f, ".({:x})", task.path.folded)?;
        }
        task.path
            .steps()
            .iter()
            .try_for_each(|step| write!(f, ".{step}"))
    }
}

impl fmt::Display for Named<'_, RequestId> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Named(self.0.task, self.1), self.0.number)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Named(*self, &()).fmt(f)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Named(*self, &()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ways_stay_short_and_differ() {
        let mut seen = std::collections::HashSet::new();
        let mut path = Path::default();
        for depth in 0..1000 {
            assert!(seen.insert(path), "{depth}");
            assert!(seen.insert(path.child(1)));
            path = path.child(0);
            assert_eq!(Path::from_parts(path.folded(), path.steps()), Some(path));
        }
        assert_eq!(path.steps().len(), STEPS_MAX);
    }
}
