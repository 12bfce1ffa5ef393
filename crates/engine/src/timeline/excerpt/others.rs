//! Where the other processes of a tree are cut when one is cut at a place: at the last place that certainly
//! came before, as far as the tapes tell. Whatever they tell, births and outputs are cut in their order: a
//! replay makes no process twice and waits for no output that is not there.

use std::collections::{BTreeMap, BTreeSet};

use relive_trace::{Kind, TapeId, TapeMark, TapePart, Trace};

use super::births::{Births, each};
use super::cut_place::CutPlace;
use super::tape_notes::AllNotes;
use crate::failure::{Failure, Result};
use crate::session_state::SessionState;
use crate::supervisor;
use crate::timeline::ancestors::{follow, processes};
use crate::timeline::present::Timeline;

/// Events of tapes that must lie before a cut.
type Needs = BTreeMap<TapeId, u64>;

/// The cut at the beginning of an excerpt.
pub struct BeginCut {
    /// The processes that there are.
    pub places: Vec<CutPlace>,
    /// The number of the first output behind it.
    pub order: u64,
}

/// Cuts all processes where one of them stands.
///
/// # Errors
/// A process cannot be described there, or divergence.
pub fn begin(trace: &Trace, births: &Births, all_notes: &AllNotes, at: CutPlace) -> Result<BeginCut> {
    let notes = all_notes;
    let first = at.state.process.index;
    refuse_sharing(trace, first)?;
    let cut = Cut::of(&at.state);
    let mut early = early(notes, first, &cut);
    for (id, notes) in &notes.0 {
        if reaped(all_notes, births, id.process, first, &cut) {
            early.insert(*id, notes.end);
        }
    }
    let order = next_order(trace, notes, first, &cut, &early);
    let mut needs = early;
    for (id, notes) in &notes.0 {
        if id.process != first {
            let need = needs.entry(*id).or_default();
            *need = (*need).max(notes.up_to(order));
        }
    }
    let all = processes(trace);
    let ancestors: BTreeSet<u32> = ancestors(births, first);
    for &process in all.iter().rev().filter(|process| **process != first) {
        let own = |needs: &Needs| needs.iter().any(|(id, n)| id.process == process && *n > 0);
        let made = births.parent(process);
        let made = made.and_then(|by| Some((by, *notes.0.get(&by)?.makes.get(&process)?)));
        if let Some((by, index)) = made {
            if by.process == first && !cut.has_passed(by, index) {
                needs.retain(|id, _| id.process != process);
            } else if own(&needs) || ancestors.contains(&process) {
                let need = needs.entry(by).or_default();
                *need = (*need).max(index + 1);
            }
        }
    }
    if let Some((by, index)) = births.parent(first).and_then(|by| {
        let index = *notes.0.get(&by)?.makes.get(&first)?;
        Some((by, index))
    }) {
        let need = needs.entry(by).or_default();
        *need = (*need).max(index + 1);
    }
    let mut cuts = BTreeMap::from([(first, Some(cut))]);
    let mut places = vec![at];
    for &process in all.iter().filter(|process| **process != first) {
        let there = match births.parent(process) {
            None => true,
            Some(by) => {
                let index = notes.0.get(&by).and_then(|n| n.makes.get(&process).copied());
                match (cuts.get(&by.process), index) {
                    (Some(Some(cut)), Some(index)) => cut.has_passed(by, index),
                    // It has ended.
                    (Some(None), _) => true,
                    _ => false,
                }
            }
        };
        if !there {
            continue;
        }
        let wanted = needs.iter().filter(|(id, _)| id.process == process);
        let wanted: Needs = wanted.map(|(id, n)| (*id, *n)).collect();
        let all = notes
            .process(process)
            .all(|(id, notes)| wanted.get(&id).is_some_and(|need| *need >= notes.end));
        let parent = births.parent(process).map(|by| by.process);
        let parent = parent.and_then(|parent| Some((parent, cuts.get(&parent)?.as_ref()?)));
        let waited = parent.is_some_and(|(parent, cut)| reaped(notes, births, process, parent, cut));
        let silent = notes.process(process).all(|(_, notes)| notes.reaches(order).is_none());
        let reached = match all || waited && silent {
            true => None,
            false => reach(trace, process, &wanted)?,
        };
        cuts.insert(process, reached.as_ref().map(|place| Cut::of(&place.state)));
        if let Some(place) = reached {
            check_orders(notes, &place, order)?;
            places.push(place);
        }
    }
    places.sort_by_key(|place| place.state.process.index);
    Ok(BeginCut { places, order })
}

/// Where a process is cut.
pub struct Cut {
    marks: BTreeMap<TapeId, TapeMark>,
    threads: u32,
}

impl Cut {
    /// Where it is described.
    pub fn of(state: &SessionState) -> Self {
        Self {
            marks: state.marks(),
            threads: state.process.next_thread,
        }
    }

    /// Events of a tape before the cut, of those that it has.
    pub fn events(&self, id: TapeId, end: u64) -> u64 {
        match self.marks.get(&id) {
            Some(mark) => mark.event,
            None if id.is_schedule() || id.thread >= self.threads => 0,
            None => end,
        }
    }

    /// Whether an event lies before it.
    fn has_passed(&self, id: TapeId, index: u64) -> bool {
        self.events(id, u64::MAX) > index
    }
}

/// Whether a process has learnt before its cut that its child, the process, has ended.
fn reaped(notes: &AllNotes, births: &Births, process: u32, by: u32, cut: &Cut) -> bool {
    if births.parent(process).is_none_or(|parent| parent.process != by) {
        return false;
    }
    let id = births.id(process);
    // Kernel ids come again, once the process that had one has been waited for.
    let children = notes.process(by).flat_map(|(_, notes)| notes.makes.keys());
    let before = children.filter(|child| **child < process && births.id(**child) == id);
    let told = notes.process(by).flat_map(|(tape, notes)| {
        let events = cut.events(tape, notes.end);
        let reaps = notes.reaps.iter();
        reaps.filter(move |(index, pid)| *index < events && Some(*pid) == id)
    });
    told.count() > before.count()
}

/// The process and those that it comes from.
fn ancestors(births: &Births, process: u32) -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    let mut at = Some(process);
    while let Some(process) = at.filter(|process| all.insert(*process)) {
        at = births.parent(process).map(|by| by.process);
    }
    all
}

/// Events of other processes that were written before the last chunk of this process that lies before its cut.
fn early(notes: &AllNotes, first: u32, cut: &Cut) -> Needs {
    let last = |(id, notes): (TapeId, &super::tape_notes::TapeNotes)| {
        let events = cut.events(id, notes.end);
        let before = notes.chunks.iter().rfind(|(_, end)| *end <= events);
        before.map(|(place, _)| *place)
    };
    let place = notes.process(first).filter_map(last).max().unwrap_or(0);
    let later = |(id, notes): (TapeId, &super::tape_notes::TapeNotes)| {
        notes.order_from(cut.events(id, notes.end))
    };
    let limit = notes.process(first).filter_map(later).min().unwrap_or(u64::MAX);
    let others = notes.0.iter().filter(|(id, _)| id.process != first);
    let need = |notes: &super::tape_notes::TapeNotes| {
        let written = notes.written_before(place);
        notes.reaches(limit).map_or(written, |most| written.min(most))
    };
    others.map(|(id, notes)| (*id, need(notes))).collect()
}

/// The number of the first output behind a cut.
fn next_order(trace: &Trace, notes: &AllNotes, first: u32, cut: &Cut, early: &Needs) -> u64 {
    let base = trace.manifest().excerpt.as_ref().map_or(0, |e| e.order);
    let last = notes.0.iter().filter_map(|(id, notes)| {
        let events = match id.process == first {
            true => cut.events(*id, notes.end),
            false => early.get(id).copied().unwrap_or(0),
        };
        let before = notes.orders.iter().rfind(|(index, _)| *index < events);
        before.map(|(_, number)| number + 1)
    });
    last.max().unwrap_or(0).max(base)
}

/// The first place of a process behind these events; `None`: it ends before.
fn reach(trace: &Trace, process: u32, needs: &Needs) -> Result<Option<CutPlace>> {
    let way = follow(trace, process)?;
    for &process in &way.chain {
        refuse_sharing(trace, process)?;
    }
    let mut timeline = Timeline::open(trace.directory(), &way)?;
    let mut event = timeline.start().event;
    loop {
        let Some(place) = timeline.place_from(event)? else {
            return Ok(None);
        };
        let missing = missing(trace, &place.state, needs)?;
        if missing == 0 {
            return Ok(Some(place));
        }
        event = place.status.point.event + missing;
    }
}

/// How many events at least lie between a place and the end of these events.
fn missing(trace: &Trace, state: &SessionState, needs: &Needs) -> Result<u64> {
    let cut = Cut::of(state);
    let mut missing = 0;
    for (id, need) in needs {
        let there = cut.events(*id, u64::MAX);
        if there >= *need {
            continue;
        }
        let from = cut.marks.get(id).copied().unwrap_or(trace.base(*id));
        let part = TapePart {
            id: *id,
            from,
            to: Some(*need),
        };
        let mut between = 0;
        each(trace, &part, |event, _| {
            // Readings are no events of the process.
            between += u64::from(!matches!(event.kind, Kind::Readings { .. }));
            Ok(())
        })?;
        missing += between.max(1);
    }
    Ok(missing)
}

/// A place has no output that belongs behind the cut.
fn check_orders(notes: &AllNotes, place: &CutPlace, order: u64) -> Result<()> {
    let cut = Cut::of(&place.state);
    let process = place.state.process.index;
    let late = notes.process(process).any(|(id, notes)| {
        let events = cut.events(id, notes.end);
        notes.reaches(order).is_some_and(|index| index < events)
    });
    match late {
        false => Ok(()),
        true => Err(Failure::unsupported(format!(
            "a recording that begins there: p{process} cannot be described between two outputs of the processes; choose a place a little earlier or later"
        ))),
    }
}

fn refuse_sharing(trace: &Trace, process: u32) -> Result<()> {
    match supervisor::waits_for_others(trace, process)? {
        false => Ok(()),
        true => Err(Failure::unsupported(format!(
            "a part of a recording whose processes share memory (p{process} does): use the whole one, with --from and --to of relive replay or --at of relive debug"
        ))),
    }
}
