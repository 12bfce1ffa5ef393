//! The causally closed prefix of recordings that were cut.
//!
//! Lanes are written one by one, so that a crash may leave a receipt on a tape whose sender, a handler,
//! was started by a receipt that is on none. Such a request cannot be sent again. It and all that the
//! lane has behind it are left out, until every receipt that is left has its cause.

use std::collections::HashMap;

use crate::id::{Origin, TaskId};
use crate::name::NameId;
use crate::record::LaneKind;
use crate::tape::{End, Tape};

/// Takes receipts without a cause off the ends of lanes; says how many.
///
/// Tapes that were ended in order lack nothing: what they do not explain is no loss.
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
