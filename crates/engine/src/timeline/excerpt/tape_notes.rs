//! The facts on the tapes of a recording by which its processes are cut at one time: outputs with their
//! order, births, and when chunks were written. Must never be taken for more than it is: the time of a chunk
//! is that of its writing.

use std::collections::BTreeMap;

use relive_trace::{Kind, Syscall, TapeId, TapePart, Trace};

use super::begun_tapes::{TapeStarts, each};
use crate::failure::Result;

/// The facts on one tape.
#[derive(Default)]
pub struct TapeNotes {
    /// Events before the end of the tape.
    pub end: u64,
    /// Outputs: index of the event, and number in the order of all outputs.
    pub orders: Vec<(u64, u64)>,
    /// Processes that it makes, with the index of the event.
    pub makes: BTreeMap<u32, u64>,
    /// Children that have ended, as it learnt: index of the event, and kernel id.
    pub reaps: Vec<(u64, u32)>,
    /// Chunks: place among all chunks in the order of their writing, and events before their end.
    pub chunks: Vec<(usize, u64)>,
}

impl TapeNotes {
    /// The first event at which an output of this number or a later one is made.
    pub fn reaches(&self, order: u64) -> Option<u64> {
        let found = self.orders.iter().find(|(_, number)| *number >= order);
        found.map(|(index, _)| *index)
    }

    /// Events up to the last output before that of this number.
    pub fn up_to(&self, order: u64) -> u64 {
        let before = self.orders.iter().rfind(|(_, number)| *number < order);
        before.map_or(0, |(index, _)| index + 1)
    }

    /// The number of the first output from this event on.
    pub fn order_from(&self, index: u64) -> Option<u64> {
        let found = self.orders.iter().find(|(at, _)| *at >= index);
        found.map(|(_, number)| *number)
    }

    /// The number of the last output before this event.
    pub fn order_before(&self, index: u64) -> Option<u64> {
        let found = self.orders.iter().rfind(|(at, _)| *at < index);
        found.map(|(_, number)| *number)
    }

    /// Events in chunks that were written before the one at this place.
    pub fn written_before(&self, place: usize) -> u64 {
        let before = self.chunks.iter().rfind(|(at, _)| *at < place);
        before.map_or(0, |(_, events)| *events)
    }

    /// Events up to the end of the first chunk that was written behind the one at this place: all that had
    /// happened by then are among them.
    pub fn written_behind(&self, place: usize) -> u64 {
        let behind = self.chunks.iter().find(|(at, _)| *at > place);
        behind.map_or(self.end, |(_, events)| *events)
    }
}

/// The facts on all tapes of threads.
pub struct AllNotes(pub BTreeMap<TapeId, TapeNotes>);

impl AllNotes {
    /// Reads a recording.
    ///
    /// # Errors
    /// It is damaged.
    pub fn of(trace: &Trace, starts: &TapeStarts) -> Result<Self> {
        let mut ends: BTreeMap<TapeId, Vec<(usize, u64)>> = BTreeMap::new();
        for (place, (id, end)) in trace.chunk_ends().into_iter().enumerate() {
            ends.entry(id).or_default().push((place, end));
        }
        let mut all = BTreeMap::new();
        for id in trace.tapes().iter().map(|tape| tape.id) {
            if !id.is_schedule() {
                let ends = ends.remove(&id).unwrap_or_default();
                all.insert(id, notes(trace, starts, id, &ends)?);
            }
        }
        Ok(Self(all))
    }

    /// Those of one process.
    pub fn process(&self, process: u32) -> impl Iterator<Item = (TapeId, &TapeNotes)> {
        let range = TapeId::new(process, 0)..TapeId::schedule(process);
        self.0.range(range).map(|(id, notes)| (*id, notes))
    }
}

/// The child of which a call has told that it has ended.
fn reaped(call: &Syscall<'_>) -> Option<u32> {
    let options = *call.args.as_slice().get(2)? as i32;
    let ends_only = options & (libc::WUNTRACED | libc::WCONTINUED) == 0;
    let waits = i64::from(call.nr) == libc::SYS_wait4 && ends_only;
    u32::try_from(call.result)
        .ok()
        .filter(|pid| waits && *pid > 0)
}

fn notes(
    trace: &Trace,
    starts: &TapeStarts,
    id: TapeId,
    ends: &[(usize, u64)],
) -> Result<TapeNotes> {
    let whole = TapePart {
        id,
        from: trace.base(id),
        to: None,
    };
    let mut notes = TapeNotes {
        end: whole.from.event,
        makes: starts.made_by(trace, &whole)?,
        ..TapeNotes::default()
    };
    let mut left = ends.iter().peekable();
    each(trace, &whole, |event, offset| {
        if let Kind::Syscall(call) = &event.kind {
            let order = call.order.map(|order| (notes.end, order));
            notes.orders.extend(order);
            let reaped = reaped(call).map(|pid| (notes.end, pid));
            notes.reaps.extend(reaped);
        }
        notes.end += 1;
        while let Some((place, _)) = left.next_if(|(_, end)| *end <= offset) {
            notes.chunks.push((*place, notes.end));
        }
        Ok(())
    })?;
    Ok(notes)
}
