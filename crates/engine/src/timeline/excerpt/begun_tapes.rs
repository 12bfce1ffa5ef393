//! The tapes of threads and processes that begin within an excerpt. A tape that nobody makes there must never
//! be among them: its thread ended before.

use std::collections::{BTreeMap, BTreeSet};

use relive_kabi::Makes;
use relive_trace::{Event, Kind, Origin, Start, TapeId, TapeMark, TapePart, Trace};

use crate::call::answer::Answer;
use crate::failure::{Failure, Result};

/// All tapes of a process.
pub fn tapes_of(trace: &Trace, process: u32) -> impl Iterator<Item = TapeId> {
    let all = trace.tapes().iter().map(|tape| tape.id);
    all.filter(move |id| id.process == process)
}

/// Hands out the events of a part of a tape, each with the bytes of events up to its end.
///
/// # Errors
/// The trace is damaged, or `look` fails.
pub fn each(
    trace: &Trace,
    part: &TapePart,
    mut look: impl FnMut(&Event<'_>, u64) -> Result<()>,
) -> Result<()> {
    let mut reader = trace.tape_at(part.id, &part.from).map_err(Failure::setup)?;
    while part.to.is_none_or(|to| reader.position() < to) {
        // The event borrows the reader, which knows its end before.
        let Some(end) = reader.end().map_err(Failure::setup)? else {
            break;
        };
        if let Some(event) = reader.next().map_err(Failure::setup)? {
            look(&event, end)?;
        }
    }
    Ok(())
}

/// The births of a recording, as its tapes tell.
pub struct TapeStarts {
    /// The first event of each tape that has one.
    starts: BTreeMap<TapeId, (Origin, TapeId, u32)>,
}

impl TapeStarts {
    /// Of a trace.
    ///
    /// # Errors
    /// It is damaged.
    pub fn of(trace: &Trace) -> Result<Self> {
        let mut starts = BTreeMap::new();
        // A part may begin in front of the first event of a process that is there from its beginning.
        let base = trace.manifest().excerpt.iter();
        let there: BTreeSet<TapeId> = base
            .flat_map(|excerpt| &excerpt.processes)
            .map(|begun| TapeId::new(begun.process, 0))
            .collect();
        let begun = trace.tapes().iter().map(|tape| tape.id);
        for id in begun.filter(|id| !there.contains(id)) {
            let mut tape = trace.tape(id).map_err(Failure::setup)?;
            if let Some(Kind::Start(Start {
                origin,
                parent,
                tid,
                ..
            })) = tape.next().map_err(Failure::setup)?.map(|e| e.kind)
            {
                starts.insert(id, (origin, parent, tid));
            }
        }
        Ok(Self { starts })
    }

    /// The tape on which the process was made, if that is known.
    pub fn parent(&self, process: u32) -> Option<TapeId> {
        let (origin, parent, _) = self.starts.get(&TapeId::new(process, 0))?;
        matches!(origin, Origin::Fork | Origin::Vfork).then_some(*parent)
    }

    /// The kernel id of a process.
    pub fn id(&self, process: u32) -> Option<u32> {
        let start = self.starts.get(&TapeId::new(process, 0));
        start.map(|(_, _, tid)| *tid)
    }

    /// The processes that the events of parts of tapes make.
    ///
    /// # Errors
    /// The trace is damaged.
    pub fn made_by(&self, trace: &Trace, part: &TapePart) -> Result<BTreeMap<u32, u64>> {
        let (mut made, mut index) = (BTreeMap::new(), part.from.event);
        each(trace, part, |event, _| {
            if let Kind::Syscall(call) = &event.kind
                && relive_kabi::row(call.nr.into()).is_some_and(|row| row.makes != Makes::Nothing)
                && call.result > 0
            {
                let child = Answer::of(call).child_index();
                if self.is_process(part.id, child, call.result) {
                    made.insert(child, index);
                }
            }
            index += 1;
            Ok(())
        })?;
        Ok(made)
    }

    /// Whether a call on a tape that returned this id has made the process of an index, and not a thread with
    /// the same one.
    fn is_process(&self, by: TapeId, index: u32, id: i64) -> bool {
        let Some((Origin::Fork | Origin::Vfork, parent, tid)) =
            self.starts.get(&TapeId::new(index, 0))
        else {
            return false;
        };
        let thread = self.starts.get(&TapeId::new(by.process, index));
        let is_thread = thread.is_some_and(|(origin, parent, tid)| {
            *origin == Origin::Thread && *parent == by && i64::from(*tid) == id
        });
        // In a namespace of its own a process knows itself by another id.
        *parent == by && (i64::from(*tid) == id || !is_thread)
    }
}

/// The parts of tapes of an excerpt: of those that go on where a process is cut, and of all that begin later.
/// `ends` has the end of a tape that is cut, in events; processes in `left_out` have none.
///
/// # Errors
/// The trace is damaged.
pub fn parts(
    trace: &Trace,
    starts: &TapeStarts,
    begins: &BTreeMap<TapeId, TapeMark>,
    threads: &BTreeMap<u32, u32>,
    ends: &dyn Fn(TapeId) -> Option<u64>,
) -> Result<Vec<TapePart>> {
    let part = |id: TapeId, from: TapeMark| TapePart {
        id,
        from,
        to: ends(id),
    };
    let mut all: Vec<TapePart> = begins.iter().map(|(id, mark)| part(*id, *mark)).collect();
    // Threads of the processes that there are.
    for id in trace.tapes().iter().map(|tape| tape.id) {
        let later = threads.get(&id.process).is_some_and(|below| {
            let schedule = id.is_schedule() && !begins.contains_key(&id);
            schedule || !id.is_schedule() && id.thread >= *below
        });
        if later {
            all.push(part(id, TapeMark::default()));
        }
    }
    // Processes that they make, and that those make.
    let (mut known, mut at): (BTreeSet<u32>, usize) = (threads.keys().copied().collect(), 0);
    while let Some(next) = all.get(at).copied() {
        at += 1;
        for process in starts.made_by(trace, &next)?.into_keys() {
            if known.insert(process) {
                let own = tapes_of(trace, process);
                all.extend(own.map(|id| part(id, TapeMark::default())));
            }
        }
    }
    all.retain(|part| {
        part.to
            .is_none_or(|to| to > part.from.event || begins.contains_key(&part.id))
    });
    all.sort_unstable_by_key(|part| part.id);
    Ok(all)
}
