//! Where the other processes of a tree are cut when one is cut at a place: at the last place that certainly
//! came before, as far as the tapes tell. Whatever they tell, births and outputs are cut in their order: a
//! replay makes no process twice and waits for no output that is not there.

use std::collections::{BTreeMap, BTreeSet};

use relive_trace::{Kind, TapeId, TapeMark, TapePart, Trace};

use super::begun_tapes::{TapeStarts, each};
use super::cut_place::CutPlace;
use super::tape_notes::{AllNotes, TapeNotes};
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

/// The outputs from a number on that the recording itself lacks.
pub fn gaps(trace: &Trace, order: u64) -> Vec<(u64, u64)> {
    let base = trace.manifest().excerpt.iter();
    let gaps = base.flat_map(|excerpt| excerpt.gaps.iter().copied());
    gaps.filter(|(from, _)| *from > order).collect()
}

/// Tries to cut all processes between two outputs.
const TRIES: usize = 16;

/// Cuts all processes where one of them stands.
///
/// # Errors
/// A process cannot be described there, or divergence.
pub fn begin(
    trace: &Trace,
    starts: &TapeStarts,
    notes: &AllNotes,
    at: CutPlace,
) -> Result<BeginCut> {
    let first = at.state.process.index;
    refuse_sharing(trace, first)?;
    let cutting = Cutting {
        trace,
        starts,
        notes,
        first,
        cut: Cut::of(&at.state),
    };
    let mut needs = cutting.early();
    for _ in 0..TRIES {
        let order = cutting.settle(&mut needs);
        match cutting.places(&needs, order)? {
            Ok(mut places) => {
                places.push(at);
                places.sort_by_key(|place| place.state.process.index);
                return Ok(BeginCut { places, order });
            }
            // The first place of a process is behind later outputs.
            Err(later) if cutting.may_need(&later) => needs.extend(later),
            Err(later) => {
                let process = later.keys().next().map_or(0, |id| id.process);
                return Err(Failure::unsupported(format!(
                    "a recording that begins there: p{process} cannot be described between two outputs of the processes; choose a place a little earlier or later"
                )));
            }
        }
    }
    Err(Failure::unsupported(
        "a recording that begins there: its processes cannot be cut between two of their outputs; choose a place a little earlier or later",
    ))
}

/// The processes of a recording where one of them is cut.
struct Cutting<'a> {
    trace: &'a Trace,
    starts: &'a TapeStarts,
    notes: &'a AllNotes,
    first: u32,
    cut: Cut,
}

impl Cutting<'_> {
    /// Events of other processes that were written before the last chunk of this process that lies before its
    /// cut, and all of those of which it has learnt that they have ended.
    fn early(&self) -> Needs {
        let last = |(id, notes): (TapeId, &TapeNotes)| {
            let events = self.cut.events(id, notes.end);
            let before = notes.chunks.iter().rfind(|(_, end)| *end <= events);
            before.map(|(place, _)| *place)
        };
        let place = self.notes.process(self.first).filter_map(last).max();
        let limit = self.limit();
        let mut needs = Needs::new();
        for (id, notes) in self
            .notes
            .0
            .iter()
            .filter(|(id, _)| id.process != self.first)
        {
            let written = notes.written_before(place.unwrap_or(0));
            let most = notes.reaches(limit).unwrap_or(u64::MAX);
            let need = match self.has_reaped(id.process, self.first, &self.cut) {
                true => notes.end,
                false => written.min(most),
            };
            needs.insert(*id, need);
        }
        needs
    }

    /// The number of the first output that the process makes behind its cut.
    fn limit(&self) -> u64 {
        let later =
            |(id, notes): (TapeId, &TapeNotes)| notes.order_from(self.cut.events(id, notes.end));
        let own = self.notes.process(self.first).filter_map(later);
        own.min().unwrap_or(u64::MAX)
    }

    /// Whether none of these events is an output that came behind the cut.
    fn may_need(&self, needs: &Needs) -> bool {
        let limit = self.limit();
        needs.iter().all(|(id, need)| {
            let reaches = self.notes.0.get(id).and_then(|notes| notes.reaches(limit));
            reaches.is_none_or(|index| index >= *need)
        })
    }

    /// Adds all events that come before others which are needed: outputs with lower numbers, and births. The
    /// number of the first output behind them.
    fn settle(&self, needs: &mut Needs) -> u64 {
        let base = self.trace.manifest().excerpt.as_ref();
        let mut order = base.map_or(0, |excerpt| excerpt.order);
        loop {
            for (id, notes) in self
                .notes
                .0
                .iter()
                .filter(|(id, _)| id.process != self.first)
            {
                let need = needs.entry(*id).or_default();
                *need = (*need).max(notes.up_to(order));
            }
            self.need_births(needs);
            let last = self.notes.0.iter().filter_map(|(id, notes)| {
                let events = match id.process == self.first {
                    true => self.cut.events(*id, notes.end),
                    false => needs.get(id).copied().unwrap_or(0),
                };
                notes.order_before(events).map(|number| number + 1)
            });
            match last.max() {
                Some(later) if later > order => order = later,
                _ => return order,
            }
        }
    }

    /// The event that makes a process, if it is not there from the beginning.
    fn birth(&self, process: u32) -> Option<(TapeId, u64)> {
        let by = self.starts.parent(process)?;
        let index = self.notes.0.get(&by)?.makes.get(&process)?;
        Some((by, *index))
    }

    /// Adds the births of processes of which events are needed, and of those that the process comes from.
    fn need_births(&self, needs: &mut Needs) {
        let ancestors = self.ancestors();
        for process in processes(self.trace).into_iter().rev() {
            let Some((by, index)) = self.birth(process) else {
                continue;
            };
            let any = needs
                .iter()
                .any(|(id, need)| id.process == process && *need > 0);
            if by.process == self.first && !self.cut.has_passed(by, index) {
                needs.retain(|id, _| id.process != process);
            } else if any || ancestors.contains(&process) {
                let need = needs.entry(by).or_default();
                *need = (*need).max(index + 1);
            }
        }
    }

    /// The process and those that it comes from.
    fn ancestors(&self) -> BTreeSet<u32> {
        let mut all = BTreeSet::new();
        let mut at = Some(self.first);
        while let Some(process) = at.filter(|process| all.insert(*process)) {
            at = self.starts.parent(process).map(|by| by.process);
        }
        all
    }

    /// Whether a process has learnt before its cut that its child, the process, has ended.
    fn has_reaped(&self, process: u32, by: u32, cut: &Cut) -> bool {
        let is_child = self
            .starts
            .parent(process)
            .is_some_and(|tape| tape.process == by);
        if !is_child {
            return false;
        }
        let id = self.starts.id(process);
        // Kernel ids come again, once the process that had one has been waited for.
        let children = self
            .notes
            .process(by)
            .flat_map(|(_, notes)| notes.makes.keys());
        let before = children.filter(|child| **child < process && self.starts.id(**child) == id);
        let told = self.notes.process(by).flat_map(|(tape, notes)| {
            let events = cut.events(tape, notes.end);
            let reaps = notes.reaps.iter();
            reaps.filter(move |(index, pid)| *index < events && Some(*pid) == id)
        });
        told.count() > before.count()
    }

    /// The places of all other processes that there are; those events of one that has none between the outputs
    /// before this one and later ones.
    fn places(
        &self,
        needs: &Needs,
        order: u64,
    ) -> Result<std::result::Result<Vec<CutPlace>, Needs>> {
        let mut cuts = BTreeMap::from([(self.first, Some(self.cut.clone()))]);
        let mut places = Vec::new();
        for process in processes(self.trace) {
            if process == self.first || !self.is_there(process, &cuts) {
                continue;
            }
            let own = needs.iter().filter(|(id, _)| id.process == process);
            let own: Needs = own.map(|(id, need)| (*id, *need)).collect();
            let place = match self.is_over(process, &own, order, &cuts) {
                true => None,
                false => reach(self.trace, process, &own)?,
            };
            cuts.insert(process, place.as_ref().map(|place| Cut::of(&place.state)));
            let Some(place) = place else { continue };
            let cut = Cut::of(&place.state);
            let events = |(id, notes): (TapeId, &TapeNotes)| (id, cut.events(id, notes.end));
            let late = |(id, notes): (TapeId, &TapeNotes)| {
                let events = cut.events(id, notes.end);
                notes.reaches(order).is_some_and(|index| index < events)
            };
            if self.notes.process(process).any(late) {
                return Ok(Err(self.notes.process(process).map(events).collect()));
            }
            places.push(place);
        }
        Ok(Ok(places))
    }

    /// Whether a process has begun before the cuts of those before it.
    fn is_there(&self, process: u32, cuts: &BTreeMap<u32, Option<Cut>>) -> bool {
        if self.starts.parent(process).is_none() {
            return true;
        }
        let Some((by, index)) = self.birth(process) else {
            return false;
        };
        match cuts.get(&by.process) {
            Some(Some(cut)) => cut.has_passed(by, index),
            // It has ended.
            Some(None) => true,
            None => false,
        }
    }

    /// Whether a process has ended behind these events, without a replay that tells.
    fn is_over(
        &self,
        process: u32,
        needs: &Needs,
        order: u64,
        cuts: &BTreeMap<u32, Option<Cut>>,
    ) -> bool {
        let own = || self.notes.process(process);
        let whole = own().all(|(id, notes)| needs.get(&id).is_some_and(|n| *n >= notes.end));
        let by = self.starts.parent(process).map(|by| by.process);
        let cut = by.and_then(|by| Some((by, cuts.get(&by)?.as_ref()?)));
        let reaped = cut.is_some_and(|(by, cut)| self.has_reaped(process, by, cut));
        whole || reaped && own().all(|(_, notes)| notes.reaches(order).is_none())
    }
}

/// Where a process is cut.
#[derive(Clone)]
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

/// Refuses a process whose memory others write.
///
/// # Errors
/// It is one; or the trace is damaged.
pub fn refuse_sharing(trace: &Trace, process: u32) -> Result<()> {
    match supervisor::waits_for_others(trace, process)? {
        false => Ok(()),
        true => Err(Failure::unsupported(format!(
            "a part of a recording whose processes share memory (p{process} does): use the whole one, with --from and --to of relive replay or --at of relive debug"
        ))),
    }
}
