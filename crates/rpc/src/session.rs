//! A process's session: off, recording or replaying. Everything else is opened through it.
//!
//! A recording is a folder with one tape for each process, named after the process.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::bytes::Malformed;
use crate::causal;
use crate::checker::Checker;
use crate::folder::{create, read_all};
use crate::gate::{Gate, Side};
use crate::header::Mark;
use crate::id::{Origin, Path as Way, TaskId};
use crate::lane::{Notes, lock};
use crate::live::LiveGate;
use crate::name::{Name, NameId};
use crate::outcome::{CHECK_VARIABLE, OpenError, Outcome, VARIABLE};
use crate::record::LaneKind;
use crate::recorder::{Keep, Recorder};
use crate::recording::On;
use crate::replay::ReplayGate;
use crate::replayer::Replayer;
use crate::tape::{SUFFIX, Tape};
use crate::task::{self, Task};
use crate::writer::TapeWriter;

/// How long a replay waits for a request while nothing else goes on.
pub const LIMIT: Duration = Duration::from_secs(30);

/// See the module's page. Clones are the same session; it lives as long as one of them, an entry point,
/// lock, channel or task of it does.
#[derive(Clone)]
pub struct Session(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) process: Name,
    mode: Mode,
    /// Names that are taken.
    names: Mutex<HashMap<NameId, Name>>,
    checker: OnceLock<Arc<Checker>>,
    _on: Option<On>,
}

enum Mode {
    Off,
    Record(Recorder),
    Replay(Replayer),
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
            checker: OnceLock::new(),
            _on: on.then(On::new),
        }))
    }

    /// Checks a name.
    pub(crate) fn name(text: &str) -> Result<Name, OpenError> {
        Name::new(text).map_err(|malformed| OpenError::Name(text.to_owned(), malformed))
    }

    /// As [`VARIABLE`] and [`CHECK_VARIABLE`] say.
    pub fn from_env(process: &str) -> Result<Self, OpenError> {
        let value = std::env::var_os(VARIABLE).unwrap_or_default();
        let text = value.to_string_lossy();
        let wrong = || OpenError::Variable(text.clone().into_owned());
        let session = match text.split_once(':') {
            _ if text.is_empty() || text == "off" => Self::off(process),
            Some((mode, dir)) if !dir.is_empty() => {
                let dir = Path::new(dir);
                match mode {
                    "record" => Self::record(dir, process, Keep::Order),
                    "record+payloads" => Self::record(dir, process, Keep::Payloads),
                    "replay" => Self::replay(dir, process, Some(LIMIT)),
                    "alone" => Self::replay_alone(dir, process, Some(LIMIT)),
                    _ => Err(wrong()),
                }
            }
            _ => Err(wrong()),
        }?;
        if std::env::var_os(CHECK_VARIABLE).is_some_and(|value| !value.is_empty()) {
            session.check_by(Checker::speaking());
        }
        Ok(session)
    }

    /// Neither records nor replays.
    pub fn off(process_name: &str) -> Result<Self, OpenError> {
        Ok(Self::new(process(process_name)?, Mode::Off))
    }

    /// Records into a folder, which is made if it lacks. A tape that is there is never overwritten.
    pub fn record(dir: &Path, process_name: &str, keep: Keep) -> Result<Self, OpenError> {
        let process = process(process_name)?;
        let path = dir.join(format!("{process}{SUFFIX}"));
        let failed = |error| OpenError::Write(path.clone(), error);
        let tape = create(dir, &path)
            .and_then(|file| TapeWriter::new(file, &process))
            .map_err(failed)?;
        let recorder = Recorder::to_writer(tape, process.id(), keep).map_err(failed)?;
        Ok(Self::new(process, Mode::Record(recorder)))
    }

    /// Records into memory, for tests; [`Self::finish_in_memory`] gives the tape.
    pub fn record_in_memory(process_name: &str, keep: Keep) -> Result<Self, OpenError> {
        let process = process(process_name)?;
        let recorder = Recorder::to_memory(process.id(), keep);
        Ok(Self::new(process, Mode::Record(recorder)))
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
        let at = tapes.iter().position(|tape| tape.process == process);
        let at = at.ok_or(OpenError::NoTape(process))?;
        Ok(Self::replaying(tapes, at, false, limit))
    }

    /// Replays a process of the recording in a folder without its peers; it needs their payloads, and no
    /// other tape. [`Self::requests`] brings its requests.
    pub fn replay_alone(
        dir: &Path,
        process_name: &str,
        limit: Option<Duration>,
    ) -> Result<Self, OpenError> {
        let process = process(process_name)?;
        let path = dir.join(format!("{process}{SUFFIX}"));
        let tape = Tape::open(&path).map_err(|error| OpenError::Tape(path, error))?;
        Self::replay_tape_alone(tape, limit)
    }

    /// The same, of the process whose tape is given.
    pub fn replay_tape_alone(mut tape: Tape, limit: Option<Duration>) -> Result<Self, OpenError> {
        if !causal::is_enough(&tape) {
            return Err(OpenError::NoPayloads(tape.process));
        }
        causal::close_alone(&mut tape);
        let mut tapes = vec![tape];
        causal::close(&mut tapes);
        Ok(Self::replaying(tapes, 0, true, limit))
    }

    fn replaying(tapes: Vec<Tape>, at: usize, alone: bool, limit: Option<Duration>) -> Self {
        let replayer = Replayer::new(tapes, at, alone, limit);
        let process = replayer.shared.process.clone();
        Self::new(process, Mode::Replay(replayer))
    }

    /// The histories of a process that is replayed without its peers.
    pub(crate) fn alone(&self) -> Option<&Replayer> {
        match &self.0.mode {
            Mode::Replay(replayer) if replayer.shared.alone => Some(replayer),
            Mode::Off | Mode::Record(_) | Mode::Replay(_) => None,
        }
    }

    /// Turns the debug mode on, before anything else is opened: [`Session::state`]s that handlers share
    /// without an order of ours are found. Does nothing while off.
    pub fn check(&self) {
        self.check_by(Checker::default());
    }

    fn check_by(&self, checker: Checker) {
        if !matches!(self.0.mode, Mode::Off) {
            checker.knows(&self.0.process);
            let _ = self.0.checker.set(Arc::new(checker));
        }
    }

    pub(crate) fn checker(&self) -> Option<Arc<Checker>> {
        self.0.checker.get().cloned()
    }

    /// How far this process's recording is; to go with an answer, for the asker's [`depend`](crate::depend).
    /// `None` if nothing is recorded.
    pub fn mark(&self) -> Option<Mark> {
        match &self.0.mode {
            Mode::Record(recorder) => Some(recorder.mark()),
            Mode::Off | Mode::Replay(_) => None,
        }
    }

    /// The process's name.
    pub fn process(&self) -> &Name {
        &self.0.process
    }

    /// Whether it replays. Limits of how many requests are under way belong to live traffic: one around a
    /// gate or a client keeps out the request whose turn it is, as soon as others have all its places.
    pub fn is_replay(&self) -> bool {
        matches!(self.0.mode, Mode::Replay(_))
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
                task::Side::Record(self.notes(recorder, LaneKind::Root, &name))
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

    fn notes(&self, recorder: &Recorder, kind: LaneKind, name: &Name) -> Arc<Notes> {
        Arc::new(Notes {
            lane: recorder.lane(kind, name),
            _session: self.0.clone(),
        })
    }

    /// Runs `future` as a root task.
    pub async fn run<F: Future>(&self, text: &str, future: F) -> Result<F::Output, OpenError> {
        Ok(match self.root(text)? {
            Some(task) => task.scope(future).await,
            None => future.await,
        })
    }

    /// Runs `function` as a root task: for reads before the program serves, as of its configuration.
    pub fn run_sync<R>(&self, text: &str, function: impl FnOnce() -> R) -> Result<R, OpenError> {
        Ok(match self.root(text)? {
            Some(task) => task.run(function),
            None => function(),
        })
    }

    pub(crate) fn gate(&self, kind: LaneKind, name: Name) -> Result<Arc<Gate>, OpenError> {
        let inner = &self.0;
        let side = match &inner.mode {
            Mode::Off => Side::Live(LiveGate::new(None, kind.is_exclusive())),
            Mode::Record(recorder) => {
                inner.take_name(&name)?;
                let notes = self.notes(recorder, kind, &name);
                Side::Live(LiveGate::new(Some(notes), kind.is_exclusive()))
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
            asked_by_tasks: matches!(kind, LaneKind::Lock | LaneKind::Channel),
            checker: self.checker().filter(|_| kind.is_exclusive()),
            _session: self.0.clone(),
        }))
    }

    /// Ends recording: the operations until now are on the tape when this returns, and nothing more is
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
        if let Some(checker) = self.checker.get() {
            checker.knows(name);
        }
        match lock(&self.names).insert(name.id(), name.clone()) {
            None => Ok(()),
            Some(other) => Err(OpenError::Taken(name.clone(), other)),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Mode::Record(recorder) = &self.mode {
            // Nobody is left to tell of a failure.
            let _ = recorder.finish();
        }
    }
}
