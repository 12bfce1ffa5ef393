//! The first replay of a recording by epochs: each stretch between two session images is searched by itself, until one of its orders
//! leads to the next image, and several at the same time (DoublePlay: Veeraraghavan and others, ASPLOS 2011). The exact tapes
//! of all of them, one behind the other, are those of the recording. Must never put tapes together of which one has not come to
//! the image at its end.

use std::path::Path;
use std::time::{Duration, Instant};

use relive_trace::{
    FoundEpoch, ImageHead, ImageSet, Manifest, TapeId, Trace, exact_folder, images_of,
};

use super::epoch_searches::{EpochAnswer, EpochSearches, Waited};
use super::epoch_state::{found_folder, is_recorded, recorded_state};
use super::exploration::{Exploration, ExploreEnd, ExploreOptions, ExploreWatcher};
use super::first_replay::FirstReplay;
use super::first_search;
use super::joined_epochs::{put_together, put_together_behind};
use crate::failure::{Failure, Result};
use crate::modes::replay::epoch::Epoch;
use crate::session_state::{LAYOUT, Refused};
use crate::supervisor::{ExactLock, Stretch, remove_folder};
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

/// The epochs of a recording, in order; `None`: it has one only. None begins behind what there is of it.
///
/// # Errors
/// Its images cannot be read.
pub(super) fn of(trace: &Trace) -> Result<Option<Vec<Stretch>>> {
    let images = images(trace.directory())?;
    if images.is_empty() || trace.is_exact() || !has_epochs(trace, 0)? {
        return Ok(None);
    }
    let folder = trace.directory();
    let (mut all, mut begin) = (Vec::new(), None);
    for head in &images {
        if is_there(trace, head)? {
            all.push(stretch(folder, begin, Some(head.work)));
            begin = Some(head);
        }
    }
    all.push(stretch(folder, begin, None));
    Ok(Some(all).filter(|all| all.len() > 1))
}

/// Whether a recording says all that its threads did up to this image: it may have been cut off before, or a thread that owed something may have
/// ended without its next event.
fn is_there(trace: &Trace, head: &ImageHead) -> Result<bool> {
    let end = recorded_state(trace.directory(), head.work)?;
    let infos = trace.tapes();
    let length = |id| {
        infos
            .iter()
            .find(|tape| tape.id == id)
            .map_or(0, |tape| tape.raw_bytes)
    };
    is_recorded(trace.directory(), &end, length)
}

/// Removes what there is of epochs: the order of the recording is found without them.
///
/// # Errors
/// It cannot be removed.
pub(super) fn forget(trace: &Path) -> Result<()> {
    remove_folder(&found_folder(trace))?;
    ImageSet::Epochs
        .remove(trace)
        .map(drop)
        .map_err(Failure::setup)
}

/// The images between the epochs of a recording, in order.
fn images(trace: &Path) -> Result<Vec<ImageHead>> {
    let mut images = images_of(trace, ImageSet::Epochs).map_err(Failure::setup)?;
    images.retain(|head| (head.layout, head.process) == (LAYOUT, 0));
    Ok(images)
}

/// The epoch from an image, or the beginning of a recording, to an image or its end.
pub(super) fn stretch(folder: &Path, begin: Option<&ImageHead>, end: Option<u64>) -> Stretch {
    let epoch = Epoch {
        begin: begin.map(|head| head.work),
        end,
    };
    // Both ends: between those of one that has been found another image may come to be known.
    let found = found_folder(folder).join(epoch.to_text().replace(' ', "to"));
    Stretch {
        trace: folder.to_owned(),
        epoch,
        order: begin.map_or(0, |head| head.order),
        exact: exact_folder(&found),
        notes: found,
    }
}

/// How many epochs a recording has.
///
/// # Errors
/// Its images cannot be read.
pub fn epochs(trace: &Trace) -> Result<usize> {
    Ok(of(trace)?.map_or(1, |all| all.len()))
}

/// Searches the order of one epoch of a recording, which may still run, by so many attempts at most; for a process of its own, as each supervises replays.
///
/// # Errors
/// There is no such epoch.
pub fn search_epoch(trace: &Path, epoch: Epoch, attempts: u32) -> Result<EpochAnswer> {
    let trace = std::path::absolute(trace).map_err(Failure::setup)?;
    let images = images(&trace)?;
    let none = || Failure::setup("the recording has no such epoch");
    let image = |work| {
        images
            .iter()
            .find(|head| head.work == work)
            .ok_or_else(none)
    };
    let begin = epoch.begin.map(image).transpose()?;
    let stretch = stretch(&trace, begin, epoch.end);
    std::fs::create_dir_all(&stretch.notes).map_err(|e| cannot(&stretch.notes, &e))?;
    let answer = first_search::search(&stretch, (attempts, 1), &mut |_| ());
    if let Ok(attempts) = answer {
        let found = FoundEpoch {
            attempts,
            cpu_us: cpu_time()?.as_micros() as u64,
        };
        Manifest::note_found(&stretch.exact, found).map_err(Failure::setup)?;
    }
    Ok(answer)
}

/// The CPU time of this process, and of those that it has waited for.
fn cpu_time() -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for whose in [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN] {
        // SAFETY: all zero bytes are an rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes the rusage, and nothing else.
        if unsafe { libc::getrusage(whose, &raw mut usage) } != 0 {
            return Err(Failure::setup(std::io::Error::last_os_error()));
        }
        for time in [usage.ru_utime, usage.ru_stime] {
            sum += Duration::from_secs(time.tv_sec as u64);
            sum += Duration::from_micros(time.tv_usec as u64);
        }
    }
    Ok(sum)
}

/// How many epochs between these images are searched at the same time, of `jobs` that are wanted.
///
/// # Errors
/// The last one cannot be read.
pub(super) fn places(trace: &Path, images: &[ImageHead], jobs: usize) -> Result<usize> {
    let jobs = at_a_time(trace, ImageSet::Epochs, images, jobs.max(1));
    jobs.map_err(|failure| {
        let why = Refused::Image(failure.text().to_owned());
        why.failure(ImageSet::Epochs)
    })
}

/// Finds the turns of a recording by its epochs, up to `how.jobs` at a time, each by a process that `how.searcher` starts, which answers with an
/// [`EpochAnswer`]. `tell` is told how many of how many are found. How long it took to put them together.
///
/// # Errors
/// No order of one that was tried leads to its end: both sides of its first attempt. The others are kept.
pub(super) fn linearise(
    trace: &Path,
    epochs: &[Stretch],
    how: &FirstReplay<'_>,
    tell: &mut dyn FnMut(usize, usize),
) -> Result<Duration> {
    let images = images_of(trace, ImageSet::Epochs).map_err(Failure::setup)?;
    let jobs = places(trace, &images, how.jobs)?;
    let mut searches = AllSearches {
        epochs,
        how,
        jobs,
        tell,
    };
    // What is easy first, then what has to be searched, from the end: where one is not found, those before it make nothing exact.
    searches.make(0, false)?;
    let failed = searches.make(how.attempts, true)?;
    if let Some((number, failure)) = failed {
        let (number, all) = (number + 1, epochs.len());
        let found = all - missing(epochs);
        return Err(failure.of(format_args!("epoch {number} of {all} ({found} are found)")));
    }
    let begin = Instant::now();
    put_together(trace, epochs)?;
    Ok(begin.elapsed())
}

/// The searches of all epochs that are not found.
struct AllSearches<'a> {
    epochs: &'a [Stretch],
    how: &'a FirstReplay<'a>,
    jobs: usize,
    tell: &'a mut dyn FnMut(usize, usize),
}

impl AllSearches<'_> {
    /// Makes them, the last epoch first, by so many attempts at most behind the first ones; behind one that fails no other one is begun, if that
    /// `ends` all. The last epoch that was tried and is not found, and why.
    fn make(&mut self, attempts: u32, ends: bool) -> Result<Option<(usize, Failure)>> {
        let epochs = self.epochs;
        let mut left = (0..epochs.len()).rev().filter(|&n| !epochs[n].is_found());
        let mut found = epochs.len() - missing(epochs);
        let (mut running, mut failed) = (EpochSearches::default(), None::<(usize, Failure)>);
        loop {
            (self.tell)(found, epochs.len());
            while running.len() < self.jobs
                && !(ends && failed.is_some())
                && let Some(number) = left.next()
            {
                let command = (self.how.searcher)(epochs[number].epoch, attempts);
                running.begin(number, command)?;
            }
            if running.len() == 0 {
                return Ok(failed);
            }
            match running.wait(None, None)? {
                Waited::Searched(_, Ok(_)) => found += 1,
                Waited::Searched(number, Err(failure)) => {
                    let is_later = failed.as_ref().is_none_or(|(other, _)| *other < number);
                    if is_later {
                        failed = Some((number, failure));
                    }
                }
                Waited::Other | Waited::Nothing => {}
            }
        }
    }
}

/// Makes the recording exact behind its last epoch that is not found, if there is something behind it. How many are not found; `None`: it stays
/// as it is.
///
/// # Errors
/// The exact tapes cannot be written.
pub(super) fn keep_last_part(trace: &Path, epochs: &[Stretch]) -> Result<Option<usize>> {
    let last = epochs.iter().rposition(|epoch| !epoch.is_found());
    let Some((last, work)) = last.and_then(|last| Some((last, epochs[last].epoch.end?))) else {
        return Ok(None);
    };
    put_together_behind(trace, &epochs[last + 1..], work)?;
    Ok(Some(missing(epochs)))
}

/// Forgets the exact tapes of the last part of a recording, of which replays with other orders read all tapes. Whether there were any.
///
/// # Errors
/// They cannot be removed.
pub(super) fn forget_last_part(trace: &Path) -> Result<bool> {
    let _lock = ExactLock::take(trace, &mut || ())?;
    let known = Trace::open(trace).map_err(Failure::setup)?;
    if !known.is_found_in_part() {
        return Ok(false);
    }
    remove_folder(&exact_folder(trace))?;
    for set in [ImageSet::Begin, ImageSet::Index] {
        set.remove(trace).map_err(Failure::setup)?;
    }
    Ok(true)
}

/// How many epochs a recording has whose last part is exact, and how many of them are not found.
///
/// # Errors
/// Its images cannot be read.
pub fn missing_epochs(trace: &Path) -> Result<(usize, usize)> {
    let recording = Trace::open_recorded(trace).map_err(Failure::setup)?;
    let all = of(&recording)?.unwrap_or_default();
    Ok((all.len(), missing(&all)))
}

fn missing(epochs: &[Stretch]) -> usize {
    epochs.iter().filter(|epoch| !epoch.is_found()).count()
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
        if !matches!(end, ExploreEnd::Exact) || Stretch::whole(trace).is_found() {
            return Ok((end, attempts));
        }
        let found = FoundEpoch {
            attempts: exploration.attempts(),
            cpu_us: 0,
        };
        Manifest::note_found(&epoch.exact, found).map_err(Failure::setup)?;
    }
    let _lock = ExactLock::take(trace, &mut || ())?;
    if !Trace::open(trace).map_err(Failure::setup)?.is_exact() {
        put_together(trace, epochs)?;
    }
    Ok((ExploreEnd::Exact, attempts))
}

fn cannot(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::setup(format!("cannot write {}: {error}", folder.display()))
}
