//! Comparing the session images of a recording with a replay from its beginning: at the place of each image the replay
//! must describe itself as the image does, and from there to the end both must come to the same. Must never leave out a
//! field on which a later event depends.

use std::collections::BTreeMap;
use std::path::Path;

use relive_trace::{ImageHead, ImageReader, ImageSet, TapeId, Trace, images_of};

use super::ancestors::follow;
use super::image_list;
use super::images::point;
use super::replay_end::ReplayEnd;
use super::replay_process::{ReplayProcess, Uninterrupted};
use crate::difference::differs;
use crate::failure::{Failure, Result};
use crate::guide::point::Point;
use crate::guide::protocol::{Ran, RunRequest, StopSet};
use crate::session_state::{Refused, SessionState, ThreadState};
use crate::task::plain_task::TaskState;

/// Of a process so many images are replayed to its end.
const ENDS: usize = 8;

/// Compares all images of a recording; gives their number. `tell` is told how many of how many are done.
///
/// # Errors
/// One differs, or divergence.
pub fn check_index(trace: &Trace, tell: &mut dyn FnMut(u64, u64)) -> Result<u64> {
    let folder = std::path::absolute(trace.directory()).map_err(Failure::setup)?;
    let all = images_of(&folder, ImageSet::Index).map_err(Failure::setup)?;
    let mut processes: Vec<u32> = all.iter().map(|head| head.process).collect();
    processes.sort_unstable();
    processes.dedup();
    let mut done = 0;
    for process in processes {
        let chain = follow(trace, process)?.chain;
        let mut images = image_list::of(&folder, &chain)?;
        images.sort_by_key(|head| point(head).key());
        let (mut host, _) = ReplayProcess::start(&folder, &chain, None)?;
        let mut resumed = Vec::new();
        let every = images.len().div_ceil(ENDS).max(1);
        for (n, head) in images.iter().enumerate() {
            tell(done, all.len() as u64);
            compare(trace, &folder, head, &mut host)?;
            if n % every == 0 {
                let mut from = ReplayProcess::resume(&folder, &chain, head.work, None)?.0;
                resumed.push((head, ReplayEnd::of(&mut from)?));
            }
            done += 1;
        }
        let whole = ReplayEnd::of(&mut host)?;
        // The recorder measures the work of a way about as a replay does.
        let alike = |end: &ReplayEnd| (end.status.point, end.status.ended, end.checksum);
        for (head, end) in resumed {
            if alike(&end) != alike(&whole) {
                return Err(end.is_other(&point(head), &whole));
            }
        }
    }
    tell(done, all.len() as u64);
    Ok(done)
}

/// Brings the replay to the place of an image, and compares.
fn compare(trace: &Trace, folder: &Path, head: &ImageHead, host: &mut ReplayProcess) -> Result<()> {
    let wanted = point(head);
    let mut to = |until: Point| {
        let run = RunRequest {
            until: Some(until),
            ..RunRequest::to_the_end()
        };
        host.run(&run, &StopSet::default(), &mut Uninterrupted)
    };
    // Right behind an event that begins a program no tick has a name.
    let mut ran = to(Point::behind_event(wanted.event))?;
    if ran.status.point != wanted {
        ran = to(wanted)?;
    }
    compare_here(trace, folder, head, &ran, host).map(|_| ())
}

/// Compares an image with a replay that has run to its place; the checksum of memory and registers there.
///
/// # Errors
/// They differ.
pub(super) fn compare_here(
    trace: &Trace,
    folder: &Path,
    head: &ImageHead,
    ran: &Ran,
    host: &mut ReplayProcess,
) -> Result<u64> {
    let image = ImageReader::open(folder, ImageSet::Index, head.process, head.work);
    let image = image
        .map_err(Refused::from)
        .and_then(|image| SessionState::of(&image))
        .map_err(|refused| refused.failure(ImageSet::Index))?;
    let wanted = point(head);
    let differs = |what: &str| {
        Failure::divergence(format!(
            "the session image at {wanted} is not as the replay: {what}"
        ))
    };
    if ran.status.point != wanted {
        return Err(differs(&format!(
            "{wanted:?}, which stops at {:?} ({:?})",
            ran.status.point, ran.why
        )));
    }
    let Some((bytes, _)) = host.image()? else {
        return Err(differs("which cannot be described there"));
    };
    let replayed = SessionState::decode(&bytes).map_err(Failure::internal)?;
    let at_end = |thread: &ThreadState| {
        let id = TapeId::new(replayed.process.index, thread.task.index);
        let tape = thread.tape.as_ref().map(|t| trace.tape_at(id, &t.mark));
        tape.is_none_or(|tape| tape.is_ok_and(|mut tape| tape.outline().is_ok_and(|e| e.is_none())))
    };
    let dead = host.dead_flags()?;
    match difference(&image, &replayed, &dead, &at_end) {
        None => Ok(replayed.sum),
        Some(what) if image.sum != replayed.sum => {
            let page = other_page(folder, head, host)?;
            Err(differs(&format!("{what}\n  {page}")))
        }
        Some(what) => Err(differs(&what)),
    }
}

/// The way up to here, in so far as it says how to go back.
type WayState = (u64, Option<Point>, Vec<Option<Point>>);

fn way(state: &SessionState) -> WayState {
    let track = &state.replayed.track;
    let slots = state.threads.iter().map(|thread| thread.task.slot);
    let left = slots.map(|slot| track.left.get(&slot).copied());
    (track.base, track.began, left.collect())
}

/// The first page of an image that has another content in the replay.
fn other_page(folder: &Path, head: &ImageHead, host: &mut ReplayProcess) -> Result<String> {
    let image = ImageReader::open(folder, ImageSet::Index, head.process, head.work);
    let mut image = image.map_err(Failure::setup)?;
    let found = image.first_other(|at, page| {
        let there = host.content(at, at + page.len() as u64);
        there.is_ok_and(|there| there == page)
    });
    Ok(match found.map_err(Failure::setup)? {
        Some(at) => format!("memory differs in the page at {at:#x}"),
        None => "memory or registers differ in what the image does not have".to_owned(),
    })
}

/// The first field that differs.
fn difference(
    image: &SessionState,
    replayed: &SessionState,
    dead: &BTreeMap<u32, u64>,
    at_end: &dyn Fn(&ThreadState) -> bool,
) -> Option<String> {
    let (a, b) = (image, replayed);
    let (slots, others): (Vec<u32>, Vec<u32>) = (
        a.threads.iter().map(|t| t.task.slot).collect(),
        b.threads.iter().map(|t| t.task.slot).collect(),
    );
    let mut found = vec![
        differs("threads", &slots, &others),
        differs(
            "process",
            &a.process.without_unrecorded(),
            &b.process.without_unrecorded(),
        ),
    ];
    for (x, y) in a.threads.iter().zip(&b.threads) {
        // A recorder logs with these where a turn ends; of a replay no event depends on them: it knows how far behind a tick a
        // thread gave its turn away, and may have had to stop where the recorder did not.
        let mut task = TaskState {
            steps: y.task.steps,
            exact: y.task.exact,
            ..x.task.clone()
        };
        if at_end(y) {
            // A call that never returned: it has no turn any more.
            task.parked = y.task.parked;
        }
        // A component with its initial value is an unused one, once the thread has left translated code. Flags that no code reads
        // any more are as the last stop left them.
        let mut replayed = y.task.clone();
        let dead = dead.get(&y.task.slot).copied().unwrap_or_default();
        for state in [&mut task, &mut replayed] {
            state.registers.extended.settle();
            state.registers.rflags &= !dead;
        }
        found.push(differs("thread", &task, &replayed));
        let mark = |t: &ThreadState| t.tape.as_ref().map(|tape| tape.mark);
        found.push(differs(
            "tape",
            &(x.task.slot, mark(x)),
            &(y.task.slot, mark(y)),
        ));
    }
    let (r, s) = (&a.replayed, &b.replayed);
    found.extend([
        differs(
            "memory",
            &a.memory.without_hints(),
            &b.memory.without_hints(),
        ),
        differs("turn", &(a.turn, a.schedule), &(b.turn, b.schedule)),
        differs(
            "events and turns",
            &(r.events, r.turns),
            &(s.events, s.turns),
        ),
        differs("children", &r.children, &s.children),
        differs(
            "program",
            &(&r.track.program, r.track.stack),
            &(&s.track.program, s.track.stack),
        ),
        differs("way", &way(a), &way(b)),
        differs("checksum of memory and registers", &a.sum, &b.sum),
    ]);
    found.into_iter().flatten().next()
}
