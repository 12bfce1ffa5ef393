//! The timeline itself: its position, and the guest that a user looks at there. Must never let a
//! replay go on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use relive_trace::{ImageHead, Manifest};

use super::ancestors::Follow;
use super::image_list;
use super::replay_process::ReplayProcess;
use super::route::Noted;
use super::snapshots::{Snapshot, Snapshots};
use crate::failure::{Failure, Result};
use crate::guide::point::Point;
use crate::guide::protocol::{Ended, Hit, ReplayStatus, StopSet};
use crate::supervisor::{self, Folder};

/// Work between two snapshots before the speed of the replay is known.
const FIRST_GAP: u64 = 2_000_000;
/// Memory for snapshots: this part of the memory available at the start.
const MEMORY_PART: u64 = 4;

/// Why the timeline stands where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It was asked to go exactly there.
    There,
    /// The steps are done.
    Stepped,
    /// A breakpoint, an access to watched memory, a signal.
    Hit(Hit),
    /// The process begins here: nothing is before.
    Start,
    /// The process has ended.
    Ended(Ended),
    /// It was interrupted.
    Interrupted,
}

/// The timeline of one process.
pub struct Timeline {
    pub(super) snapshots: Snapshots,
    pub(super) current: ReplayProcess,
    pub(super) status: ReplayStatus,
    pub(super) start: Point,
    /// It begins with an image of the process, in the midst of it.
    within: bool,
    /// Where to stop.
    pub stops: StopSet,
    /// A copy that has been written to: the guest that a user looks at, until the replay goes on.
    pub(super) changed: Option<ReplayProcess>,
    pub(super) trace: PathBuf,
    /// The processes that it follows.
    pub(super) chain: Vec<u32>,
    /// The session images of the process, in order of work.
    pub(super) images: Vec<ImageHead>,
    /// The changes that others make to shared memory, for replays of this process.
    pub(super) other_writers: Option<Folder>,
    /// Work done so far in portions, and the microseconds that it took.
    pub(super) speed: (u64, u128),
    /// Snapshots that a user wants to come back to, by number.
    pub(super) kept: BTreeMap<u32, Snapshot>,
    /// Replays at a time, where a question can be answered in parts.
    pub(super) jobs: usize,
    /// The writes to note on the way that the timeline is about to go.
    pub(super) noted: Option<Noted>,
}

impl Timeline {
    /// Opens a trace at the beginning of a process.
    ///
    /// # Errors
    /// The trace is damaged, or has no such process.
    pub fn open(trace: &Path, follow: &Follow) -> Result<Self> {
        let trace = std::path::absolute(trace).map_err(Failure::setup)?;
        let other_writers = supervisor::other_writers(&trace, &follow.chain)?;
        let changes = other_writers.as_ref().map(Folder::path);
        let (mut host, status) = ReplayProcess::start(&trace, &follow.chain, changes)?;
        let current = host.fork()?;
        let bound = available_memory() / MEMORY_PART;
        let images = match changes {
            None => image_list::of(&trace, &follow.chain)?,
            // They have no part in the writes of others.
            Some(_) => Vec::new(),
        };
        let manifest = Manifest::read(&trace).map_err(Failure::setup)?;
        let goal = follow.chain.last().copied();
        let excerpt = manifest.excerpt.zip(goal);
        let within = excerpt.is_some_and(|(excerpt, goal)| excerpt.process(goal).is_some());
        let snapshots = Snapshots::new(Snapshot { status, host }, FIRST_GAP, bound);
        Ok(Self {
            snapshots,
            current,
            status,
            start: status.point,
            within,
            stops: StopSet::default(),
            changed: None,
            trace,
            chain: follow.chain.clone(),
            images,
            other_writers,
            speed: (0, 0),
            kept: BTreeMap::new(),
            jobs: 1,
            noted: None,
        })
    }

    /// The trace's folder.
    #[must_use]
    pub fn trace(&self) -> &Path {
        &self.trace
    }

    /// Where it is.
    #[must_use]
    pub fn status(&self) -> ReplayStatus {
        self.status
    }

    /// Where it began.
    #[must_use]
    pub fn start(&self) -> Point {
        self.start
    }

    /// Whether it begins in the midst of the process, which has a past that is not there.
    #[must_use]
    pub fn begins_within(&self) -> bool {
        self.within
    }

    /// The guest as a user sees it now: of the replay, or of the copy that was written to.
    pub fn guest(&mut self) -> &mut ReplayProcess {
        self.changed.as_mut().unwrap_or(&mut self.current)
    }

    /// Whether the guest has been written to since the replay last went on.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed.is_some()
    }

    /// The guest of the recording, without the changes to its copy.
    pub fn original(&mut self) -> &mut ReplayProcess {
        &mut self.current
    }

    /// A guest that may be written to. It is thrown away when the replay goes on.
    ///
    /// # Errors
    /// No copy can be made.
    pub fn changeable(&mut self) -> Result<&mut ReplayProcess> {
        if self.changed.is_none() {
            self.changed = Some(self.current.fork()?);
        }
        Ok(self.guest())
    }

    /// Throws the copy away that was written to. Whether there was one.
    pub fn forget_changes(&mut self) -> bool {
        self.changed.take().is_some()
    }

    /// Positions of all snapshots, and the memory that they use.
    #[must_use]
    pub fn snapshots(&self) -> (Vec<ReplayStatus>, u64) {
        let all = self.snapshots.iter().map(|s| s.status).collect();
        (all, self.snapshots.memory())
    }

    /// A replay of its own, from the present position, which others cannot disturb.
    ///
    /// # Errors
    /// No copy can be made.
    pub fn snapshot(&mut self) -> Result<ReplayProcess> {
        self.current.fork()
    }

    /// From here on the guest's output is written to standard output and error, once: by the
    /// replay that goes on from here.
    ///
    /// # Errors
    /// The process is gone.
    pub fn show_output(&mut self) -> Result<()> {
        self.current.show_output()
    }
}

/// Bytes.
pub(super) fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(4 << 20) << 10
}
