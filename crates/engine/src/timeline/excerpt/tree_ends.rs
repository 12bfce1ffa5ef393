//! Where the other processes of a tree end when one is cut at a place: at the last place that may have come
//! before. All outputs up to the last one are there: a replay waits for each.

use std::collections::BTreeMap;

use relive_trace::{TapeId, Trace};

use super::begun_tapes::tapes_of;
use super::cut_place::CutPlace;
use super::others::Cut;
use super::tape_notes::{AllNotes, TapeNotes};
use crate::failure::{Failure, Result};
use crate::timeline::ancestors::{follow, processes};
use crate::timeline::present::Timeline;
use crate::timeline::replay_process::Uninterrupted;

/// Tries to find an end of all processes at one output.
const TRIES: usize = 16;

/// The ends of tapes, as numbers of events; a tape without one is there to its end.
pub type Ends = BTreeMap<TapeId, u64>;

/// The ends of all tapes where one process stands at the end of an excerpt that begins behind these events.
///
/// # Errors
/// There is no such end, or divergence.
pub fn ends(
    trace: &Trace,
    notes: &AllNotes,
    at: &CutPlace,
    begins: &dyn Fn(TapeId) -> u64,
) -> Result<Ends> {
    let first = at.state.process.index;
    let cut = Cut::of(&at.state);
    let last_place = |(id, notes): (TapeId, &TapeNotes)| {
        let events = cut.events(id, notes.end);
        let chunk = notes.chunks.iter().find(|(_, end)| *end >= events);
        chunk.map(|(place, _)| *place)
    };
    let place = notes
        .process(first)
        .filter_map(last_place)
        .max()
        .unwrap_or(0);
    let late = |id: TapeId, notes: &TapeNotes| match id.process == first {
        true => cut.events(id, notes.end),
        false => notes.written_behind(place),
    };
    let outputs = notes.0.iter();
    let outputs =
        outputs.filter_map(|(id, notes)| notes.order_from(late(*id, notes).max(begins(*id))));
    let mut order = outputs.min().unwrap_or(u64::MAX);
    for _ in 0..TRIES {
        let mut ends: Ends = own_ends(trace, first, &cut);
        for process in processes(trace)
            .into_iter()
            .filter(|process| *process != first)
        {
            let limit = |(id, notes): (TapeId, &TapeNotes)| {
                let most = late(id, notes).min(notes.reaches(order).unwrap_or(u64::MAX));
                (id, most.max(begins(id)))
            };
            let limits: Ends = notes.process(process).map(limit).collect();
            ends.append(&mut other_ends(trace, notes, process, limits)?);
        }
        let lost = notes.0.iter().filter_map(|(id, notes)| {
            let end = ends.get(id).copied().unwrap_or(notes.end);
            notes.order_from(end.max(begins(*id)))
        });
        let lost = lost.min().unwrap_or(u64::MAX);
        let kept = notes.0.iter().filter_map(|(id, notes)| {
            let end = ends.get(id).copied().unwrap_or(notes.end);
            notes.order_before(end)
        });
        if kept.max().is_none_or(|kept| kept < lost) {
            return Ok(ends);
        }
        order = order.min(lost);
    }
    Err(Failure::unsupported(
        "a recording that ends there: the outputs of its processes cannot be cut between two of them; choose another --to",
    ))
}

/// The ends of the tapes of the process that is cut.
fn own_ends(trace: &Trace, first: u32, cut: &Cut) -> Ends {
    let end = |id: TapeId| (id, cut.events(id, u64::MAX));
    let own = tapes_of(trace, first).map(end);
    own.filter(|(_, end)| *end != u64::MAX).collect()
}

/// The ends of the tapes of another process, of which no thread goes beyond its limit.
fn other_ends(trace: &Trace, notes: &AllNotes, process: u32, limits: Ends) -> Result<Ends> {
    let goes_to_the_end = notes
        .process(process)
        .all(|(id, notes)| limits.get(&id).is_none_or(|limit| *limit >= notes.end));
    if goes_to_the_end {
        return Ok(Ends::new());
    }
    let schedule = TapeId::schedule(process);
    if !trace.tapes().iter().any(|tape| tape.id == schedule) {
        return Ok(limits);
    }
    // Threads end where their turns do: the replay tells where.
    let mut timeline = Timeline::open(trace.directory(), &follow(trace, process)?)?;
    timeline.goto_end(&mut Uninterrupted)?;
    let mut event = timeline.status().point.event;
    loop {
        timeline.goto_event(event, &mut Uninterrupted)?;
        if timeline.status().ended.is_some() {
            event = event.saturating_sub(1);
            continue;
        }
        let place = timeline.cut_place()?;
        let cut = Cut::of(&place.state);
        let over = |(id, notes): (TapeId, &TapeNotes)| {
            let limit = limits.get(&id).copied().unwrap_or(u64::MAX);
            cut.events(id, notes.end).saturating_sub(limit)
        };
        let excess: u64 = notes.process(process).map(over).sum();
        if excess == 0 {
            return Ok(own_ends(trace, process, &cut));
        }
        if place.status.point.event <= timeline.start().event {
            // It is not there at all.
            return Ok(tapes_of(trace, process).map(|id| (id, 0)).collect());
        }
        event = place.status.point.event.saturating_sub(excess);
    }
}
