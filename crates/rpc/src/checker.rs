//! The debug mode's knowledge: the holder of each gate, and the gates held at each access of a state.
//!
//! It is the algorithm of Eraser (Savage and others, 1997) over gates in place of locks: each watched
//! state has a set of candidates, the gates that were held at every access so far. When none is left,
//! nothing of ours orders the accesses. **It never stops a program, and costs nothing where it is off.**

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Mutex;

use crate::id::{Named, Names, Origin, TaskId};
use crate::lane::lock;
use crate::name::{Name, NameId};

/// State that is reached by several tasks, whose order nothing of the session's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The state.
    pub state: Name,
    /// Its accesses, with their tasks and gates: the one before, and the one that shows it.
    pub accesses: [String; 2],
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = &self.accesses;
        write!(
            f,
            "{} is reached by {one}, and by {other}: no exclusive entry point, group or lock of the \
             session orders them",
            self.state
        )
    }
}

/// The holder of a gate that lets one in at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The handler of a request, with all that it starts while it runs.
    Handler(Origin),
    /// A task that holds a lock.
    Task(TaskId),
}

/// See the module's page.
#[derive(Default)]
pub(crate) struct Checker {
    inner: Mutex<Inner>,
    /// Whether findings are also written to standard error.
    pub(crate) speaks: bool,
}

#[derive(Default)]
struct Inner {
    holders: HashMap<NameId, Holder>,
    names: HashMap<NameId, Name>,
    findings: Vec<Finding>,
}

impl Names for Inner {
    fn name(&self, id: NameId) -> Option<&Name> {
        self.names.get(&id)
    }
}

/// The accesses so far of one watched state.
#[derive(Default)]
pub(crate) struct Watched {
    /// The root that made it ready, for as long as no other task has come.
    owner: Option<TaskId>,
    shared: bool,
    written: bool,
    reported: bool,
    candidates: Option<BTreeSet<NameId>>,
    last: Option<String>,
}

impl Checker {
    pub(crate) fn speaking() -> Self {
        Self {
            speaks: true,
            ..Self::default()
        }
    }

    pub(crate) fn knows(&self, name: &Name) {
        lock(&self.inner).names.insert(name.id(), name.clone());
    }

    pub(crate) fn holds(&self, gate: NameId, holder: Holder) {
        lock(&self.inner).holders.insert(gate, holder);
    }

    pub(crate) fn releases(&self, gate: NameId) {
        lock(&self.inner).holders.remove(&gate);
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        lock(&self.inner).findings.clone()
    }

    /// A task, or code outside of every task, reaches a state.
    pub(crate) fn access(
        &self,
        state: &Name,
        watched: &mut Watched,
        task: Option<TaskId>,
        writes: bool,
    ) {
        let mut inner = lock(&self.inner);
        let is_root = task.is_none_or(|task| matches!(task.origin, Origin::Root(_)));
        if !watched.shared && is_root && (watched.owner.is_none() || watched.owner == task) {
            watched.owner = task;
            return;
        }
        let held: BTreeSet<NameId> = inner
            .holders
            .iter()
            .filter(|(_, holder)| match (holder, task) {
                (_, None) => false,
                (Holder::Handler(origin), Some(task)) => *origin == task.origin,
                (Holder::Task(holder), Some(task)) => *holder == task,
            })
            .map(|(gate, _)| *gate)
            .collect();
        watched.written |= writes;
        let text = inner.describe(task, &held);
        let candidates = match watched.candidates.take() {
            None => held,
            Some(before) => before.intersection(&held).copied().collect(),
        };
        let unordered = candidates.is_empty();
        watched.candidates = Some(candidates);
        let before = watched.last.replace(text.clone());
        watched.shared = true;
        // One task by itself shares with nobody.
        let Some(before) = before.filter(|before| *before != text) else {
            return;
        };
        if unordered && watched.written && !std::mem::replace(&mut watched.reported, true) {
            let finding = Finding {
                state: state.clone(),
                accesses: [before, text],
            };
            if self.speaks {
                eprintln!("relive-rpc: {finding}");
            }
            inner.findings.push(finding);
        }
    }
}

impl Inner {
    fn describe(&self, task: Option<TaskId>, held: &BTreeSet<NameId>) -> String {
        let held: Vec<String> = held
            .iter()
            .map(|gate| Named(*gate, self).to_string())
            .collect();
        let held = match held.is_empty() {
            true => "nothing".to_owned(),
            false => held.join(", "),
        };
        match task {
            Some(task) => format!("{} holding {held}", Named(task, self)),
            None => "code outside of every task".to_owned(),
        }
    }
}
