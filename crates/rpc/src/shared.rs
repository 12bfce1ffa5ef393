//! The state that all gates of a replayed process share: its end, and the report on requests that do not come.
//!
//! Gates are known here by the little that this asks of them, so that they may stand above.
//!
//! Lock order: the list of gates, then one gate.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Waker;

use crate::halt::{Divergence, Halt, Kind};
use crate::id::{Named, Names, RequestId, TaskId};
use crate::lane::lock;
use crate::name::{Name, NameId};

/// Requests that a message names, at most.
pub(crate) const NAMED: usize = 8;

/// A place where requests wait.
pub(crate) trait Waits: Send + Sync {
    /// Of all that wait there.
    fn wakers(&self) -> Vec<Waker>;

    /// Its name, and the place of the request that is admitted next.
    fn place(&self) -> (NameId, u64);

    /// How it stands.
    fn standing(&self) -> Standing;
}

/// How a gate stands, for a report.
pub(crate) struct Standing {
    pub(crate) name: Name,
    /// Place of the request that is admitted next, and the number of all.
    pub(crate) next: usize,
    pub(crate) of: usize,
    /// That request; `None` behind the last one.
    pub(crate) expected: Option<RequestId>,
    /// The request whose work goes on.
    pub(crate) busy: Option<RequestId>,
    pub(crate) waiting: Vec<RequestId>,
    /// The last ones that were admitted.
    pub(crate) last: Vec<RequestId>,
}

/// See the module's page.
pub(crate) struct Shared {
    pub(crate) process: Name,
    pub(crate) names: HashMap<NameId, Name>,
    /// Whether this process is replayed without its peers.
    pub(crate) alone: bool,
    /// Processes whose tapes lack their ends: other ones, or its own if it is alone.
    cut: HashSet<NameId>,
    /// Whether the process received anything at all; one that did not has no end by its receipts.
    pub(crate) receives: bool,
    /// Receipts that are still to come.
    pub(crate) left: AtomicU64,
    /// Grows with everything that goes on.
    pub(crate) progress: AtomicU64,
    failure: OnceLock<Arc<Divergence>>,
    /// The requests that did not come because another process's tape was cut.
    pub(crate) cut_short: OnceLock<Arc<Divergence>>,
    gates: Mutex<Vec<Weak<dyn Waits>>>,
    /// Of tasks that bring recorded requests, which another admission may make due.
    bringers: Mutex<Vec<Waker>>,
    /// Of tasks that wait for the end alone.
    at_end: Mutex<Vec<Waker>>,
}

impl Names for Shared {
    fn name(&self, id: NameId) -> Option<&Name> {
        self.names.get(&id)
    }
}

impl Shared {
    pub(crate) fn new(
        process: Name,
        names: HashMap<NameId, Name>,
        alone: bool,
        cut: HashSet<NameId>,
        receipts: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            process,
            names,
            alone,
            cut,
            receives: receipts > 0,
            left: AtomicU64::new(receipts),
            progress: AtomicU64::new(0),
            failure: OnceLock::new(),
            cut_short: OnceLock::new(),
            gates: Mutex::default(),
            bringers: Mutex::default(),
            at_end: Mutex::default(),
        })
    }

    pub(crate) fn failure(&self) -> Option<Arc<Divergence>> {
        self.failure.get().cloned()
    }

    /// Ends the replay; the first one counts. No gate may be locked.
    pub(crate) fn fail(&self, divergence: Divergence) -> Halt {
        let first = self.failure.get_or_init(|| Arc::new(divergence)).clone();
        self.wake_all();
        Halt::Diverged(first)
    }

    /// A receipt is no longer to come.
    pub(crate) fn one_less(&self) {
        let less = |left: u64| left.checked_sub(1);
        let before = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if before == Ok(1) {
            self.wake_all();
        } else if self.alone {
            self.wake_bringers();
        }
    }

    pub(crate) fn step(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    fn wake_all(&self) {
        for gate in self.gates() {
            gate.wakers().into_iter().for_each(Waker::wake);
        }
        let wakers = std::mem::take(&mut *lock(&self.at_end));
        wakers.into_iter().for_each(Waker::wake);
        self.wake_bringers();
    }

    fn wake_bringers(&self) {
        let wakers = std::mem::take(&mut *lock(&self.bringers));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The next place of each open gate, and a waker for when that changes.
    pub(crate) fn places(&self, waker: &Waker) -> Vec<(NameId, u64)> {
        lock(&self.bringers).push(waker.clone());
        self.gates().iter().map(|gate| gate.place()).collect()
    }

    /// Why nothing is admitted any more; `None` while something is.
    pub(crate) fn end(&self) -> Option<Halt> {
        match self.failure() {
            Some(failure) => Some(Halt::Diverged(failure)),
            None => (self.left.load(Ordering::Relaxed) == 0).then_some(Halt::Over),
        }
    }

    /// The same; keeps a waker until then.
    pub(crate) fn poll_end(&self, waker: &Waker) -> Option<Halt> {
        // First the waker, so that an end between the two is noticed.
        let mut wakers = lock(&self.at_end);
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        drop(wakers);
        self.end()
    }

    /// Whether somebody waits at a gate.
    pub(crate) fn anybody_waits(&self) -> bool {
        self.gates().iter().any(|gate| !gate.wakers().is_empty())
    }

    /// A gate is open from now on.
    pub(crate) fn add(&self, gate: Weak<dyn Waits>) {
        lock(&self.gates).push(gate);
        self.wake_bringers();
    }

    fn gates(&self) -> Vec<Arc<dyn Waits>> {
        lock(&self.gates).iter().filter_map(Weak::upgrade).collect()
    }

    /// Nothing went on for too long: names the requests that are waited for. Where the tape of another
    /// process was cut, their causes may lie behind the cut, and the recording ends here.
    pub(crate) fn stalled(&self) {
        let divergence = self.missing();
        if self.cut.is_empty() {
            self.fail(divergence);
        } else {
            let _ = self.cut_short.set(Arc::new(divergence));
            self.left.store(0, Ordering::Relaxed);
            self.wake_all();
        }
    }

    fn missing(&self) -> Divergence {
        let gates: Vec<Standing> = self.gates().iter().map(|gate| gate.standing()).collect();
        let mut waiting: HashMap<TaskId, String> = HashMap::new();
        for gate in &gates {
            for id in &gate.waiting {
                let at = format!("waits at {} with {}", gate.name, Named(*id, self));
                waiting.insert(id.task, at);
            }
        }
        let mut waits = Vec::new();
        let mut first: Option<(bool, &Standing, String, String)> = None;
        for gate in &gates {
            let Some(expected) = gate.expected else {
                continue;
            };
            let comes = gate.waiting.contains(&expected);
            let held = list(gate.waiting.iter().map(|id| Named(*id, self)));
            let busy = match gate.busy {
                Some(id) => format!(", its handler is busy with {}", Named(id, self)),
                None => String::new(),
            };
            let task = match waiting.get(&expected.task) {
                Some(at) if comes => format!("which {at}"),
                Some(at) => format!("whose task {at}"),
                None => "whose task does not wait at a gate of this process".to_owned(),
            };
            let place = format!("{} #{} of {}", gate.name, gate.next, gate.of);
            let id = Named(expected, self);
            waits.push(format!(
                "{place} expects {id}, {task}; held there: {held}{busy}"
            ));
            // The first one that did not come, before those that wait for the end of another.
            if first.as_ref().is_none_or(|(better, ..)| *better && !comes) {
                first = Some((comes, gate, id.to_string(), held));
            }
        }
        const SILENCE: &str = "nothing more happened within the time limit";
        let divergence = match first {
            Some((_, gate, expected, held)) => Divergence {
                position: gate.next as u64,
                last: self.texts(&gate.last),
                ..self.divergence(
                    Kind::Missing,
                    &gate.name,
                    expected,
                    format!("{SILENCE}; held: {held}"),
                )
            },
            None => {
                let expected = "requests to gates that are not open".to_owned();
                self.divergence(Kind::Missing, &self.process, expected, SILENCE.to_owned())
            }
        };
        Divergence {
            waits,
            ..divergence
        }
    }

    /// Requests with the names that are known.
    pub(crate) fn texts(&self, ids: &[RequestId]) -> Vec<String> {
        ids.iter().map(|id| Named(*id, self).to_string()).collect()
    }

    /// One without a gate.
    pub(crate) fn divergence(
        &self,
        kind: Kind,
        lane: &Name,
        expected: String,
        actual: String,
    ) -> Divergence {
        Divergence {
            kind,
            process: self.process.clone(),
            lane: lane.clone(),
            position: 0,
            expected,
            actual,
            last: Vec::new(),
            waits: Vec::new(),
        }
    }
}

fn list<T: Display>(items: impl Iterator<Item = T>) -> String {
    let mut texts: Vec<String> = items.map(|item| item.to_string()).collect();
    if texts.is_empty() {
        return "nothing".to_owned();
    }
    texts.sort();
    let more = texts.len().saturating_sub(NAMED);
    texts.truncate(NAMED);
    let mut text = texts.join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}
