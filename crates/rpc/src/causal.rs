//! The causally closed prefix of recordings that were cut.
//!
//! Lanes are written one by one, so that a crash may leave a receipt on a tape whose sender, a handler,
//! was started by a receipt that is on none. Such a request cannot be sent again. It and all that the
//! lane has behind it are left out, until every receipt that is left has its cause.

use std::collections::HashMap;

use crate::id::{Origin, TaskId};
use crate::name::NameId;
use crate::record::{LaneKind, StreamId};
use crate::tape::{End, Lane, Tape};

/// For each tape the epoch from which on it is to be left out, so that all records that are left have those they
/// depend on, on whichever tape: the last consistent cut.
pub(crate) fn cut(tapes: &[Tape]) -> Vec<u64> {
    let places: HashMap<NameId, usize> = tapes
        .iter()
        .enumerate()
        .map(|(at, tape)| (tape.process.id(), at))
        .collect();
    let mut untils: Vec<u64> = tapes.iter().map(|tape| tape.until).collect();
    loop {
        let mut changed = false;
        for (at, tape) in tapes.iter().enumerate() {
            for (epoch, mark) in &tape.depends {
                // Of a process without a tape nothing is known.
                let there = places.get(&mark.process).map(|&of| untils[of]);
                if *epoch < untils[at] && there.is_some_and(|there| mark.epoch >= there) {
                    untils[at] = *epoch;
                    changed = true;
                }
            }
        }
        if !changed {
            return untils;
        }
    }
}

/// Takes receipts without a cause off the ends of lanes; says how many.
///
/// Tapes that were ended in order lack nothing: a receipt that they do not explain is no loss.
pub fn close(tapes: &mut [Tape]) -> usize {
    let mut there: HashMap<(NameId, NameId), u64> = HashMap::new();
    let mut cut = HashMap::new();
    for tape in &*tapes {
        cut.insert(tape.process.id(), tape.end != End::Closed);
        for lane in tape.lanes.iter().filter(|lane| lane.kind != LaneKind::Root) {
            let place = (tape.process.id(), lane.name.id());
            there.insert(place, lane.receipts.len() as u64);
        }
    }
    let lacks = |there: &HashMap<_, u64>, task: &TaskId| match task.origin {
        Origin::Gate(name, place) => {
            cut.get(&task.process) == Some(&true)
                && place >= there.get(&(task.process, name)).copied().unwrap_or(0)
        }
        Origin::Root(_) | Origin::Outside(_) => false,
    };
    let mut taken = 0;
    loop {
        let before = taken;
        for tape in &mut *tapes {
            for lane in &mut tape.lanes {
                let first = lane
                    .receipts
                    .iter()
                    .position(|receipt| lacks(&there, &receipt.id.task));
                if let Some(first) = first {
                    taken += lane.receipts.len() - first;
                    lane.receipts.truncate(first);
                    there.insert((tape.process.id(), lane.name.id()), first as u64);
                }
            }
        }
        if taken == before {
            return taken;
        }
    }
}

fn receives(lane: &Lane) -> bool {
    matches!(lane.kind, LaneKind::Entry | LaneKind::Exclusive) && !lane.receipts.is_empty()
}

/// Whether the tape has the payloads for a replay without peers, as far as that can be seen.
pub(crate) fn is_enough(tape: &Tape) -> bool {
    let mut lanes = tape.lanes.iter();
    lanes.any(|lane| !lane.payloads.is_empty()) || !tape.lanes.iter().any(receives)
}

/// Of a tape without its end: takes away the receipts whose payloads lie behind it.
pub(crate) fn close_alone(tape: &mut Tape) {
    if tape.end == End::Closed {
        return;
    }
    for lane in &mut tape.lanes {
        let kept = lane.payloads.keys();
        let requests = kept.filter(|(_, stream)| *stream == StreamId::Request);
        if let Some(last) = requests.map(|(task, _)| task.place).max() {
            lane.receipts
                .truncate(usize::try_from(last).map_or(usize::MAX, |last| last.saturating_add(1)));
        }
    }
}
