//! The first replay of a recording by epochs: each stretch between two session images is searched by itself, until one of its orders
//! leads to the next image, and several at the same time (DoublePlay: Veeraraghavan and others, ASPLOS 2011). The exact tapes
//! of all of them, one behind the other, are those of the recording. Must never put tapes together of which one has not come to
//! the image at its end.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use relive_trace::{
    ImageHead, ImageSet, Manifest, TapeId, Trace, become_images, exact_folder, images_of,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::epoch_state::image_state;
use super::exploration::{Exploration, ExploreEnd, ExploreOptions, ExploreWatcher};
use super::first_search;
use super::joining::JoinedTapes;
use crate::encoding;
use crate::failure::{Failure, Result};
use crate::modes::replay::epoch::Epoch;
use crate::session_state::{LAYOUT, Refused, SessionState};
use crate::supervisor::{ExactLock, Stretch};
use crate::timeline::at_a_time;

/// Whether a recording may be replayed by epochs: it has one process, whose threads never took turns.
///
/// # Errors
/// None: it is a condition for images, of which others can fail.
pub fn has_epochs(trace: &Trace, process: u32) -> Result<bool> {
    let own = |id: TapeId| id.process == process && !id.is_schedule();
    let begins = trace.manifest().excerpt.is_none();
    Ok(process == 0 && begins && trace.tapes().iter().all(|tape| own(tape.id)))
}

/// The epochs of a recording, in order; `None`: it has one only.
///
/// # Errors
/// Its images cannot be read.
pub(super) fn of(trace: &Trace) -> Result<Option<Vec<Stretch>>> {
    let folder = trace.directory();
    let images = images_of(folder, ImageSet::Epochs).map_err(Failure::setup)?;
    if images.is_empty() || trace.is_exact() || !has_epochs(trace, 0)? {
        return Ok(None);
    }
    let sum = trace.sum();
    let own = |head: &&ImageHead| (head.layout, head.tapes, head.process) == (LAYOUT, sum, 0);
    let stretch = |begin: Option<&ImageHead>, end: Option<u64>| {
        let begins = begin.map(|head| head.work);
        let found = found_folder(folder).join(begins.unwrap_or(0).to_string());
        Stretch {
            trace: folder.to_owned(),
            epoch: Epoch { begin: begins, end },
            order: begin.map_or(0, |head| head.order),
            exact: exact_folder(&found),
            notes: found,
        }
    };
    let (mut all, mut begin) = (Vec::new(), None);
    for head in images.iter().filter(own) {
        all.push(stretch(begin, Some(head.work)));
        begin = Some(head);
    }
    all.push(stretch(begin, None));
    Ok(Some(all).filter(|all| all.len() > 1))
}

/// How many epochs a recording has.
///
/// # Errors
/// Its images cannot be read.
pub fn epochs(trace: &Trace) -> Result<usize> {
    Ok(of(trace)?.map_or(1, |all| all.len()))
}

/// The folder with what is found of each epoch, until all is.
fn found_folder(trace: &Path) -> PathBuf {
    trace.join("epochs.found")
}

/// The answer of a process that has searched one epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EpochAnswer {
    /// Attempts that it took.
    pub attempts: u32,
    /// Class and text of the failure, if its order was not found.
    pub failed: Option<(u32, String)>,
}

impl EpochAnswer {
    fn of(result: Result<u32>) -> Self {
        match result {
            Ok(attempts) => Self {
                attempts,
                failed: None,
            },
            Err(failure) => Self {
                attempts: 0,
                failed: Some((failure.class() as u32, failure.text().to_owned())),
            },
        }
    }

    fn result(self) -> Result<u32> {
        match self.failed {
            None => Ok(self.attempts),
            Some((class, text)) => Err(Failure::of_parts(class, text)),
        }
    }
}

/// Searches the order of one epoch of a recording; for a process of its own, as each supervises replays.
///
/// # Errors
/// There is no such epoch.
pub fn search_epoch(trace: &Path, number: usize) -> Result<EpochAnswer> {
    let trace = std::path::absolute(trace).map_err(Failure::setup)?;
    let recording = Trace::open_recorded(&trace).map_err(Failure::setup)?;
    let all = of(&recording)?.unwrap_or_default();
    let epoch = all.get(number);
    let epoch = epoch.ok_or_else(|| Failure::setup("the recording has no such epoch"))?;
    std::fs::create_dir_all(&epoch.notes).map_err(|e| cannot(&epoch.notes, &e))?;
    Ok(EpochAnswer::of(first_search::search(epoch, 1, &mut |_| ())))
}

/// A search that runs.
struct EpochSearch {
    number: usize,
    child: Child,
}

impl EpochSearch {
    fn begin(number: usize, mut command: Command) -> Result<Self> {
        let cannot = |e| Failure::setup(format!("cannot start a search: {e}"));
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        // SAFETY: a system call, which may be made between fork and exec.
        let command = unsafe {
            command.pre_exec(|| {
                // Nobody would take its answer.
                let death = set_parent_process_death_signal(Some(Signal::KILL));
                death.map_err(std::io::Error::from)
            })
        };
        let child = command.spawn().map_err(cannot)?;
        Ok(Self { number, child })
    }

    /// Its answer, which comes when it ends.
    fn answer(mut self) -> Result<u32> {
        let mut text = String::new();
        if let Some(out) = &mut self.child.stdout {
            out.read_to_string(&mut text).map_err(Failure::setup)?;
        }
        let status = self.child.wait().map_err(Failure::setup)?;
        match serde_json::from_str::<EpochAnswer>(&text) {
            Ok(answer) => answer.result(),
            Err(_) => Err(Failure::setup(format!(
                "the search for its order ended: {status}"
            ))),
        }
    }
}

/// Waits until one of the searches has an answer.
fn next_answer(running: &mut Vec<EpochSearch>) -> Result<Option<EpochSearch>> {
    let fds = running
        .iter()
        .filter_map(|search| search.child.stdout.as_ref());
    let mut fds: Vec<PollFd<'_>> = fds.map(|out| PollFd::new(out, PollFlags::IN)).collect();
    match poll(&mut fds, None) {
        Err(rustix::io::Errno::INTR) => return Ok(None),
        polled => polled.map_err(Failure::setup)?,
    };
    let ready = fds.iter().position(|fd| !fd.revents().is_empty());
    Ok(ready.map(|place| running.swap_remove(place)))
}

/// Finds the turns of a recording by its epochs, up to `jobs` at a time, each by a process that `searcher` starts, which answers by a line
/// of [`EpochAnswer`]. `tell` is told how many of how many are found. How many attempts there were.
///
/// # Errors
/// No order of one that was tried leads to its end: both sides of its first attempt. The others are kept.
pub(super) fn linearise(
    trace: &Path,
    epochs: &[Stretch],
    (jobs, searcher): (usize, &dyn Fn(usize) -> Command),
    tell: &mut dyn FnMut(usize, usize),
) -> Result<u32> {
    let images = images_of(trace, ImageSet::Epochs).map_err(Failure::setup)?;
    let useless = |failure: Failure| {
        let why = Refused::Image(failure.text().to_owned());
        why.failure(ImageSet::Epochs)
    };
    let jobs = at_a_time(trace, ImageSet::Epochs, &images, jobs).map_err(useless)?;
    let missing = (0..epochs.len()).filter(|&n| !epochs[n].is_found());
    let missing: Vec<usize> = missing.collect();
    let (mut left, mut running) = (missing.iter().copied(), Vec::new());
    let mut found = epochs.len() - missing.len();
    let mut attempts = found as u32;
    let mut failed: Vec<(usize, Failure)> = Vec::new();
    loop {
        tell(found, epochs.len());
        while running.len() < jobs.max(1)
            && let Some(number) = left.next()
        {
            running.push(EpochSearch::begin(number, searcher(number))?);
        }
        if running.is_empty() {
            break;
        }
        let Some(search) = next_answer(&mut running)? else {
            continue;
        };
        let number = search.number;
        match search.answer() {
            Ok(tried) => {
                attempts += tried;
                found += 1;
            }
            Err(failure) => failed.push((number, failure)),
        }
    }
    failed.sort_by_key(|(number, _)| *number);
    if let Some((number, failure)) = failed.first() {
        return Err(Failure::of_parts(
            failure.class() as u32,
            format!(
                "epoch {} of {} ({found} are found): {}",
                number + 1,
                epochs.len(),
                failure.text()
            ),
        ));
    }
    put_together(trace, epochs)?;
    Ok(attempts)
}

/// Searches the epochs that are not found, one after the other. How that ended, and how many attempts are known.
///
/// # Errors
/// A damaged trace, or the state of the search cannot be kept.
pub(super) fn explore(
    trace: &Path,
    epochs: &[Stretch],
    options: &ExploreOptions,
    watcher: &mut dyn ExploreWatcher,
) -> Result<(ExploreEnd, u32)> {
    let mut attempts = 0;
    for epoch in epochs.iter().filter(|epoch| !epoch.is_found()) {
        std::fs::create_dir_all(&epoch.notes).map_err(|e| cannot(&epoch.notes, &e))?;
        let mut exploration = Exploration::of(epoch)?;
        let end = exploration.run(options, watcher)?;
        attempts += exploration.attempts();
        if !matches!(end, ExploreEnd::Exact) {
            return Ok((end, attempts));
        }
    }
    let _lock = ExactLock::take(trace, &mut || ())?;
    if !Trace::open(trace).map_err(Failure::setup)?.is_exact() {
        put_together(trace, epochs)?;
    }
    Ok((ExploreEnd::Exact, attempts))
}

/// Writes the exact tapes of the recording; the images between its epochs become those of its index.
fn put_together(trace: &Path, epochs: &[Stretch]) -> Result<()> {
    let folder = exact_folder(trace);
    clear(&folder)?;
    let manifest = Manifest::read(trace).map_err(Failure::setup)?;
    let mut joined = JoinedTapes::begin(&manifest, &folder)?;
    let mut images = Vec::new();
    for epoch in epochs {
        let tapes = Trace::open_recorded(&epoch.exact).map_err(Failure::setup)?;
        joined.add(&tapes)?;
        if let Some(work) = epoch.epoch.end {
            let image = image_state(trace, work)?;
            if let Some(first) = image.threads.first() {
                joined.begins(first.task.slot)?;
            }
            images.push((work, joined.state(image)));
        }
    }
    joined.finish(manifest.summary.as_ref())?;
    tracing::info!(target: "linear", "{} epochs are put together", epochs.len());
    clear(&found_folder(trace))?;
    if let Err(failure) = become_index(trace, &images) {
        // All is there without it.
        tracing::warn!(target: "linear", "no index: {failure}");
    }
    Ok(())
}

/// The images of these works, each with the state that a replay of the exact tapes has there, become the index.
fn become_index(trace: &Path, images: &[(u64, SessionState)]) -> Result<()> {
    let sum = Trace::open(trace).map_err(Failure::setup)?.sum();
    let recorded = images_of(trace, ImageSet::Epochs).map_err(Failure::setup)?;
    let described = images.iter().filter_map(|(work, state)| {
        let old = recorded.iter().find(|head| head.work == *work)?;
        let begins = state.begins();
        let head = ImageHead {
            event: begins.event,
            turn: state.replayed.turns,
            ticks: state.threads.first()?.task.ticks,
            work: begins.work,
            tapes: sum,
            order: 0,
            ..*old
        };
        Some((*old, head, encoding::to_bytes(state)))
    });
    let described: Vec<_> = described.collect();
    let sets = (ImageSet::Epochs, ImageSet::Index);
    become_images(trace, sets, &described).map_err(Failure::setup)
}

fn clear(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(cannot(folder, &e)),
        _ => Ok(()),
    }
}

fn cannot(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::setup(format!("cannot write {}: {error}", folder.display()))
}
