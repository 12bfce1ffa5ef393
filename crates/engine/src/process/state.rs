//! The description of a guest process apart from its threads and its memory: plain data that can be
//! written and read back. State that only this host process has must never become part of it, but
//! for descriptors, which the next host inherits.

use std::collections::BTreeMap;

use relive_host::signal::KernelAction;
use serde::{Deserialize, Serialize};

use crate::resource_limits::Limit;
use crate::retained_fds::RetainedFds;
use crate::seccomp::filter::Filters;
use crate::sigaction::SIG_IGN;
use crate::streams::Streams;

/// A guest process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessState {
    /// Its index in the recording.
    pub index: u32,
    /// Its kernel pid.
    pub pid: u32,
    /// The index that its next thread gets.
    pub next_thread: u32,
    /// How often a thread has set a filter for all.
    pub filters_set: u32,
    /// The part that its threads change.
    pub state: State,
}

/// The part of a process that its threads change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Signal actions by number, 1 to 64.
    #[serde(with = "actions")]
    pub actions: Actions,
    /// Which descriptors lead to the recording's standard streams.
    pub streams: Streams,
    /// The target of the link `/proc/self/exe`.
    #[serde(with = "serde_bytes")]
    pub exe: Vec<u8>,
    /// The content of `/proc/self/environ`.
    #[serde(with = "serde_bytes")]
    pub environ: Vec<u8>,
    /// The content of `/proc/self/auxv`.
    #[serde(with = "serde_bytes")]
    pub auxv: Vec<u8>,
    /// Heads of the robust futex lists of its threads, with their kernel ids, by index.
    pub robust: BTreeMap<u32, (u64, u32)>,
    /// PR_SET_DUMPABLE, as the guest set it.
    pub dumpable: i64,
    /// PR_SET_PDEATHSIG, as the guest set it (the host uses the real one in the first process).
    pub death_signal: i32,
    /// personality(2), as the guest set it.
    pub personality: u64,
    /// Limits that would hit the host, and are kept by the engine.
    pub limits: Limits,
    /// The last filter that was set for all threads.
    pub filter: Option<Filters>,
    /// Descriptors that the host keeps open because their files could not be opened again.
    pub retained_fds: Option<RetainedFds>,
}

/// Signal actions by number.
pub type Actions = [KernelAction; 65];

/// The limits that the engine enforces itself, because the host's own memory is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// RLIMIT_AS, in bytes.
    pub space: Limit,
    /// RLIMIT_DATA, in bytes.
    pub data: Limit,
}

impl Default for Limits {
    fn default() -> Self {
        const NONE: Limit = (libc::RLIM_INFINITY, libc::RLIM_INFINITY);
        Self {
            space: NONE,
            data: NONE,
        }
    }
}

impl Default for State {
    /// A process that has set nothing, without a program.
    fn default() -> Self {
        Self {
            actions: [KernelAction::default(); 65],
            streams: Streams::standard(),
            exe: Vec::new(),
            environ: Vec::new(),
            auxv: Vec::new(),
            robust: BTreeMap::new(),
            dumpable: 1,
            death_signal: 0,
            personality: 0,
            limits: Limits::default(),
            filter: None,
            retained_fds: None,
        }
    }
}

impl ProcessState {
    /// The same without what a recording alone knows and needs: which signals a program that starts ignores, the
    /// descriptors of standard streams, whose outputs name their stream, and whether a change of credentials has made it undumpable.
    #[must_use]
    pub fn without_unrecorded(&self) -> Self {
        let mut same = self.clone();
        same.state.streams = Streams::standard();
        same.state.dumpable = 1;
        let actions = same.state.actions.iter_mut();
        for action in actions.filter(|action| action.handler <= SIG_IGN) {
            *action = KernelAction::default();
        }
        same
    }

    /// A process of which nothing is known but its ids.
    #[must_use]
    pub fn new(index: u32, pid: u32) -> Self {
        Self {
            index,
            pid,
            next_thread: 1,
            filters_set: 0,
            state: State::default(),
        }
    }
}

/// Signal actions as the list of those that are not the default.
mod actions {
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};

    use super::*;

    pub fn serialize<S: Serializer>(actions: &Actions, to: S) -> Result<S::Ok, S::Error> {
        let all = (0_u8..).zip(actions);
        let set = all.filter(|(_, action)| **action != KernelAction::default());
        set.collect::<Vec<_>>().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Actions, D::Error> {
        let mut actions = [KernelAction::default(); 65];
        for (sig, action) in Vec::<(u8, KernelAction)>::deserialize(from)? {
            let at = actions.get_mut(usize::from(sig));
            *at.ok_or_else(|| D::Error::custom("an action of no signal"))? = action;
        }
        Ok(actions)
    }
}
