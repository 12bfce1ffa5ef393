//! A process's session: off, recording or replaying. Everything else is opened through it.
//!
//! A recording is a folder with one tape for each process, named after the process.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::bytes::Malformed;
use crate::causal;
use crate::gate::{Gate, Side};
use crate::halt::Divergence;
use crate::id::{Origin, Path as Way, TaskId};
use crate::lane::{TapeWriter, lock};
use crate::live::LiveGate;
use crate::name::{Name, NameId};
use crate::record::LaneKind;
use crate::recorder::{Recorder, create};
use crate::recording::On;
use crate::replay::ReplayGate;
use crate::shared::Shared;
use crate::tape::{End, Lane, SUFFIX, Tape, TapeError};
use crate::task::{self, Task};

/// Chooses the mode where a program leaves it to its environment: `record:DIR` or `replay:DIR`; unset
/// or empty is off.
pub const VARIABLE: &str = "RELIVE_RPC";

/// How long a replay waits for a request while nothing else goes on.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Why a session, or something of it, cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A name is none.
    #[error("{0}: {1}")]
    Name(String, Malformed),
    /// The variable has neither of the forms.
    #[error("{VARIABLE} is {0:?}, not record:DIR or replay:DIR")]
    Variable(String),
    /// The name, or one with the same number, is taken.
    #[error("{0:?} is opened twice, or has the number of {1:?}")]
    Taken(Name, Name),
    /// The recording has it as something else.
    #[error("{0:?} is opened as {actual}, and was recorded as {recorded}",
        actual = .1.as_str(), recorded = .2.as_str())]
    Kind(Name, LaneKind, LaneKind),
    /// The tape cannot be written.
    #[error("{path}: the tape cannot be written: {1}", path = .0.display())]
    Write(PathBuf, io::Error),
    /// A tape cannot be read.
    #[error("{path}: {1}", path = .0.display())]
    Tape(PathBuf, TapeError),
    /// The recording has no tape of this process.
    #[error("the recording has no tape of process {0}")]
    NoTape(Name),
}

/// How a session stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is recorded or replayed.
    Off,
    /// All that happened was taken down, or will be.
    Recording,
    /// The tape could not be written any more; it ends there, and the program goes on.
    Failed(String),
    /// So many receipts are still to come.
    Replaying(u64),
    /// All receipts of the recording were admitted.
    Over,
    /// The tape of another process was cut, and requests that depend on what it lacks do not come:
    /// the recording ends here, too. Names the ones that were waited for.
    CutShort(Arc<Divergence>),
    /// The replay left the recording.
    Diverged(Arc<Divergence>),
}

/// See the module's page. Clones are the same session; it lives as long as one of them, an entry point,
/// lock, channel or task of it does.
#[derive(Clone)]
pub struct Session(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) process: Name,
    mode: Mode,
    /// Names that are taken.
    names: Mutex<HashMap<NameId, Name>>,
    _on: Option<On>,
}

enum Mode {
    Off,
    Record(Recorder),
    Replay(Replayer),
}

struct Replayer {
    lanes: HashMap<NameId, Arc<Lane>>,
    shared: Arc<Shared>,
}

fn process(text: &str) -> Result<Name, OpenError> {
    let name = Session::name(text)?;
    match name.is_file_name() {
        true => Ok(name),
        false => {
            let malformed =
                Malformed("a process's name is that of its file: no / \\, no dot first");
            Err(OpenError::Name(text.to_owned(), malformed))
        }
    }
}

impl Session {
    fn new(process: Name, mode: Mode) -> Self {
        let on = !matches!(mode, Mode::Off);
        Self(Arc::new(Inner {
            process,
            mode,
            names: Mutex::default(),
            _on: on.then(On::new),
        }))
    }

    /// Checks a name.
    pub(crate) fn name(text: &str) -> Result<Name, OpenError> {
        Name::new(text).map_err(|malformed| OpenError::Name(text.to_owned(), malformed))
    }

    /// As [`VARIABLE`] says.
    pub fn from_env(process: &str) -> Result<Self, OpenError> {
        let value = std::env::var_os(VARIABLE).unwrap_or_default();
        let text = value.to_string_lossy();
        match text.split_once(':') {
            Some(("record", dir)) if !dir.is_empty() => Self::record(Path::new(dir), process),
            Some(("replay", dir)) if !dir.is_empty() => {
                Self::replay(Path::new(dir), process, Some(LIMIT))
            }
            _ if text.is_empty() || text == "off" => Self::off(process),
            _ => Err(OpenError::Variable(text.into_owned())),
        }
    }

    /// Neither records nor replays.
    pub fn off(process_name: &str) -> Result<Self, OpenError> {
        Ok(Self::new(process(process_name)?, Mode::Off))
    }

    /// Records into a folder, which is made if it lacks. A tape that is there is never overwritten.
    pub fn record(dir: &Path, process_name: &str) -> Result<Self, OpenError> {
        let process = process(process_name)?;
        let path = dir.join(format!("{process}{SUFFIX}"));
        let failed = |error| OpenError::Write(path.clone(), error);
        let tape = create(dir, &path)
            .and_then(|file| TapeWriter::new(file, &process))
            .map_err(failed)?;
        let recorder = Recorder::to_writer(tape).map_err(failed)?;
        Ok(Self::new(process, Mode::Record(recorder)))
    }

    /// Records into memory, for tests; [`Self::finish_in_memory`] gives the tape.
    pub fn record_in_memory(process_name: &str) -> Result<Self, OpenError> {
        let recorder = Recorder::to_memory();
        Ok(Self::new(process(process_name)?, Mode::Record(recorder)))
    }

    /// Replays a process of the recording in a folder. `limit`: how long it waits for a request while
    /// nothing else goes on; `None`: for ever, as under a debugger.
    pub fn replay(
        dir: &Path,
        process_name: &str,
        limit: Option<Duration>,
    ) -> Result<Self, OpenError> {
        Self::replay_tapes(read_all(dir)?, process_name, limit)
    }

    /// Replays a process of a recording of which all tapes are given; the name if it has none.
    pub fn replay_tapes(
        mut tapes: Vec<Tape>,
        process_name: &str,
        limit: Option<Duration>,
    ) -> Result<Self, OpenError> {
        let process = process(process_name)?;
        causal::close(&mut tapes);
        let names = tapes
            .iter()
            .flat_map(Tape::names)
            .map(|name| (name.id(), name.clone()));
        let names: HashMap<_, _> = names.collect();
        let at = tapes.iter().position(|tape| tape.process == process);
        let tape = tapes.swap_remove(at.ok_or(OpenError::NoTape(process))?);
        let cut = tapes.iter().filter(|tape| tape.end != End::Closed);
        let cut = cut.map(|tape| tape.process.id()).collect();
        let receipts = tape.lanes.iter().map(|lane| lane.receipts.len() as u64);
        let shared = Shared::new(tape.process.clone(), names, cut, receipts.sum());
        if let Some(limit) = limit {
            let watched = Arc::downgrade(&shared);
            std::thread::spawn(move || watch(&watched, limit));
        }
        let lanes = tape
            .lanes
            .into_iter()
            .map(|lane| (lane.name.id(), Arc::new(lane)));
        let replayer = Replayer {
            lanes: lanes.collect(),
            shared,
        };
        Ok(Self::new(tape.process, Mode::Replay(replayer)))
    }

    /// The process's name.
    pub fn process(&self) -> &Name {
        &self.0.process
    }

    /// How it stands.
    pub fn outcome(&self) -> Outcome {
        match &self.0.mode {
            Mode::Off => Outcome::Off,
            Mode::Record(recorder) => match recorder.failure.get() {
                Some(failure) => Outcome::Failed(failure.clone()),
                None => Outcome::Recording,
            },
            Mode::Replay(Replayer { shared, .. }) => match shared.failure() {
                Some(divergence) => Outcome::Diverged(divergence),
                None => match (shared.cut_short.get(), shared.left.load(Ordering::Relaxed)) {
                    (Some(missing), _) => Outcome::CutShort(missing.clone()),
                    (None, 0) => Outcome::Over,
                    (None, left) => Outcome::Replaying(left),
                },
            },
        }
    }

    /// A task that the program names itself, each name once: the main one, one for each worker that is
    /// not started by a task. `None` while off.
    pub fn root(&self, text: &str) -> Result<Option<Task>, OpenError> {
        let inner = &self.0;
        let name = Self::name(text)?;
        let side = match &inner.mode {
            Mode::Off => return Ok(None),
            Mode::Record(recorder) => {
                inner.take_name(&name)?;
                task::Side::Record {
                    lane: recorder.lane(LaneKind::Root, &name),
                    _session: self.0.clone(),
                }
            }
            Mode::Replay(replayer) => {
                let lane = replayer.lane(LaneKind::Root, &name)?;
                inner.take_name(&name)?;
                task::Side::Replay(lane, replayer.shared.clone())
            }
        };
        let id = TaskId {
            process: inner.process.id(),
            origin: Origin::Root(name.id()),
            path: Way::default(),
        };
        Ok(Some(Task::new(id, side)))
    }

    /// Runs `future` as a root task.
    pub async fn run<F: Future>(&self, text: &str, future: F) -> Result<F::Output, OpenError> {
        Ok(match self.root(text)? {
            Some(task) => task.scope(future).await,
            None => future.await,
        })
    }

    pub(crate) fn gate(&self, kind: LaneKind, name: Name) -> Result<Arc<Gate>, OpenError> {
        let inner = &self.0;
        let side = match &inner.mode {
            Mode::Off => Side::Live(LiveGate::new(None, kind.is_exclusive())),
            Mode::Record(recorder) => {
                inner.take_name(&name)?;
                let lane = recorder.lane(kind, &name);
                Side::Live(LiveGate::new(Some(lane), kind.is_exclusive()))
            }
            Mode::Replay(replayer) => {
                let lane = replayer.lane(kind, &name)?;
                inner.take_name(&name)?;
                Side::Replay(ReplayGate::open(lane, &replayer.shared))
            }
        };
        Ok(Arc::new(Gate {
            process: inner.process.id(),
            name,
            side,
            _session: self.0.clone(),
        }))
    }

    /// Ends recording: what happened until now is on the tape when this returns, and nothing more is
    /// recorded. The end of the session does the same.
    pub fn finish(&self) -> io::Result<()> {
        match &self.0.mode {
            Mode::Record(recorder) => recorder.finish().map(drop),
            Mode::Off | Mode::Replay(_) => Ok(()),
        }
    }

    /// Ends recording into memory, and gives the tape's bytes; empty if it was ended before.
    pub fn finish_in_memory(&self) -> Vec<u8> {
        match &self.0.mode {
            Mode::Record(recorder) => recorder
                .finish_with(&self.0.process)
                .expect("memory takes all bytes"),
            Mode::Off | Mode::Replay(_) => Vec::new(),
        }
    }
}

impl Inner {
    fn take_name(&self, name: &Name) -> Result<(), OpenError> {
        match lock(&self.names).insert(name.id(), name.clone()) {
            None => Ok(()),
            Some(other) => Err(OpenError::Taken(name.clone(), other)),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Mode::Record(recorder) = &self.mode {
            // Nobody is left who could be told.
            let _ = recorder.finish();
        }
    }
}

impl Replayer {
    /// The history of a lane; an empty one if the recording does not have it.
    fn lane(&self, kind: LaneKind, name: &Name) -> Result<Arc<Lane>, OpenError> {
        match self.lanes.get(&name.id()) {
            Some(lane) if lane.kind == kind => Ok(lane.clone()),
            Some(lane) => Err(OpenError::Kind(name.clone(), kind, lane.kind)),
            None => Ok(Arc::new(Lane::empty(kind, name.clone()))),
        }
    }
}

/// All tapes of a recording, in the order of their names.
pub fn read_all(dir: &Path) -> Result<Vec<Tape>, OpenError> {
    let failed = |error: io::Error| OpenError::Tape(dir.to_owned(), error.into());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.to_string_lossy().ends_with(SUFFIX) {
            paths.push(path);
        }
    }
    paths.sort();
    let open = |path: &PathBuf| Tape::open(path).map_err(|e| OpenError::Tape(path.clone(), e));
    paths.iter().map(open).collect()
}

/// Ends a replay in which nothing goes on though requests are still to come.
fn watch(shared: &Weak<Shared>, limit: Duration) {
    let mut seen = (0, Instant::now());
    loop {
        std::thread::sleep(limit / 8);
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if shared.left.load(Ordering::Relaxed) == 0 || shared.failure().is_some() {
            return;
        }
        let progress = shared.progress.load(Ordering::Relaxed);
        let begun = progress > 0 || shared.anybody_waits();
        if progress != seen.0 || !begun {
            seen = (progress, Instant::now());
        } else if seen.1.elapsed() >= limit {
            shared.stalled();
            return;
        }
    }
}
