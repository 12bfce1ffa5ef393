//! Readings of clocks and counters, which translated code makes without a stop: the content of the
//! buffers on both sides of `relive_host::reading`, and its form on a tape.
//!
//! A reading is no event and no position: it is an instruction like others, whose values come
//! from a buffer in replay. All readings since the last event go onto the tape right before the next
//! event of any kind, or note in between, or when the buffer is full, which is an event by itself.

use relive_host::reading::{CLOCKS, CPU, Entry, TSC, TSCP, Window};
use relive_trace::{Kind, Reading, Readings, SOURCES};
use serde::{Deserialize, Serialize};

/// Readings that a thread keeps before it leaves to the host.
const ROOM: usize = 512;
const BYTES: u64 = size_of::<Entry>() as u64;
const SECOND: u64 = 1_000_000_000;

/// The readings of a recorded thread since its last event.
#[derive(Default)]
pub struct Kept {
    /// Nothing before the first reading; then always of this length.
    entries: Vec<Entry>,
    count: usize,
    first: u64,
    plain: Vec<Reading>,
}

impl Kept {
    /// The part of the buffer that translated code may use; until [`Kept::take_back`], nothing else
    /// may be called here.
    pub fn lend(&mut self) -> Window {
        window(&mut self.entries, self.count, self.first)
    }

    /// Takes over the readings made meanwhile.
    pub fn take_back(&mut self, window: &Window) {
        self.count = ((window.next - window.start) / BYTES) as usize;
        self.first = window.first;
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count as u32
    }

    /// Whether there are readings to be written.
    pub fn any(&self) -> bool {
        self.count > 0
    }

    /// Whether the readings must be written before the next one is made.
    pub fn is_full(&self) -> bool {
        self.count == ROOM
    }

    /// Keeps a reading made at this tick. The buffer must not be full.
    pub fn push(&mut self, entry: Entry, ticks: u64) {
        if self.entries.is_empty() {
            self.entries = vec![Entry::default(); ROOM];
        }
        if self.count == 0 {
            self.first = ticks;
        }
        self.entries[self.count] = entry;
        self.count += 1;
    }

    /// Removes all kept readings, as an event at this tick; `None` if there are none.
    pub fn take(&mut self, ticks: u64, full: bool) -> Option<Kind<'_>> {
        if self.count == 0 {
            return None;
        }
        self.plain.clear();
        self.plain
            .extend(self.entries[..self.count].iter().map(to_reading));
        self.count = 0;
        Some(Kind::Readings {
            full,
            since: ticks.wrapping_sub(self.first),
            readings: Readings::new(&self.plain),
        })
    }
}

/// The readings that a replayed thread makes before its next event.
#[derive(Default)]
pub struct Batch {
    entries: Vec<Entry>,
    taken: usize,
    first: u64,
    /// Those before have been settled.
    settled: usize,
}

/// The first reading behind those that were settled was made at a tick that no tape says.
const UNKNOWN: u64 = u64::MAX;

/// A batch as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchState {
    /// Source, value and second value of each.
    entries: Vec<(u32, u64, u32)>,
    taken: usize,
    first: u64,
    settled: usize,
}

/// The reason why a batch does not have the reading that a thread makes.
pub enum Misfit {
    /// It has none left.
    Over,
    /// It has another reading, or the first at another tick: in words.
    Other(String),
}

impl Batch {
    /// The description of the batch.
    #[must_use]
    pub fn capture(&self) -> BatchState {
        let entries = self.entries.iter();
        BatchState {
            entries: entries.map(|e| (e.source, e.value, e.extra)).collect(),
            taken: self.taken,
            first: self.first,
            settled: self.settled,
        }
    }

    /// The batch that is described; `None`: there can be none like that.
    #[must_use]
    pub fn restore(state: &BatchState) -> Option<Self> {
        let BatchState {
            taken,
            first,
            settled,
            ..
        } = *state;
        let entry = |&(source, value, extra): &(u32, u64, u32)| Entry {
            value,
            source,
            extra,
        };
        let known = |e: &Entry| (e.source as usize) < SOURCES;
        let entries: Vec<Entry> = state.entries.iter().map(entry).collect();
        let possible = settled <= taken && taken <= entries.len() && entries.iter().all(known);
        possible.then_some(Self {
            entries,
            taken,
            first,
            settled,
        })
    }

    /// As [`Kept::lend`].
    pub fn lend(&mut self) -> Window {
        let settled = self.settled;
        let (rest, taken) = (&mut self.entries[settled..], self.taken - settled);
        window(rest, taken, self.first)
    }

    /// Notes the readings taken meanwhile.
    pub fn take_back(&mut self, window: &Window) {
        self.taken = self.settled + ((window.next - window.start) / BYTES) as usize;
    }

    /// The readings that have been made since this was last asked, at tick `ticks`; and how many ticks ago
    /// the first of them was.
    pub fn settle(&mut self, ticks: u64) -> (u64, Vec<Reading>) {
        let made = &self.entries[self.settled..self.taken];
        let made: Vec<Reading> = made.iter().map(to_reading).collect();
        if made.is_empty() {
            return (0, made);
        }
        let since = ticks.wrapping_sub(self.first);
        (self.settled, self.first) = (self.taken, UNKNOWN);
        (since, made)
    }

    /// The number of readings that have not been made yet.
    pub fn left(&self) -> usize {
        self.entries.len() - self.taken
    }

    /// These readings come next, behind those of the batch that are left; or with `settles` behind those that are not
    /// settled. The first of them was made at tick `first`.
    pub fn load(&mut self, readings: &Readings<'_>, first: u64, settles: bool) {
        if self.left() == 0 && !(settles && self.settled < self.taken) {
            self.entries.clear();
            (self.taken, self.settled, self.first) = (0, 0, first);
        }
        let entries = &mut self.entries;
        readings.for_each(|reading| entries.push(to_entry(reading)));
    }

    /// The first `made` of those that have just been loaded have been made before; `false`: there are fewer.
    pub fn pass(&mut self, made: u32) -> bool {
        let made = made as usize;
        if made > 0 && made <= self.entries.len() {
            (self.taken, self.settled, self.first) = (made, made, UNKNOWN);
        }
        made <= self.entries.len()
    }

    /// The reading that a thread makes at this tick.
    pub fn take(&mut self, source: u32, ticks: u64) -> Result<Entry, Misfit> {
        let entry = *self.entries.get(self.taken).ok_or(Misfit::Over)?;
        if self.taken == self.settled && self.first == UNKNOWN {
            self.first = ticks;
        }
        let early = self.taken == self.settled && ticks != self.first;
        if entry.source != source || early {
            return Err(Misfit::Other(self.next()));
        }
        self.taken += 1;
        Ok(entry)
    }

    /// The next reading in words.
    pub fn next(&self) -> String {
        let Some(entry) = self.entries.get(self.taken) else {
            return "no more readings of clocks".to_owned();
        };
        format!(
            "a reading of {}, number {} of {} that began at tick {}",
            name(entry.source as u8),
            self.taken + 1,
            self.entries.len(),
            self.first
        )
    }
}

fn window(entries: &mut [Entry], count: usize, first: u64) -> Window {
    let start = entries.as_mut_ptr() as u64;
    Window {
        start,
        next: start + BYTES * count as u64,
        end: start + BYTES * entries.len() as u64,
        first,
    }
}

fn to_reading(entry: &Entry) -> Reading {
    let source = entry.source as u8;
    if entry.source < CLOCKS {
        let (value, extra) = (entry.value, entry.extra);
        return Reading {
            source,
            value,
            extra,
        };
    }
    let value = entry.value.wrapping_mul(SECOND) + u64::from(entry.extra);
    Reading {
        source,
        value,
        extra: 0,
    }
}

fn to_entry(reading: Reading) -> Entry {
    let source = u32::from(reading.source);
    if source < CLOCKS {
        let (value, extra) = (reading.value, reading.extra);
        return Entry {
            value,
            source,
            extra,
        };
    }
    Entry {
        value: reading.value / SECOND,
        source,
        extra: (reading.value % SECOND) as u32,
    }
}

/// The name of a reading's clock or instruction.
#[must_use]
pub fn name(source: u8) -> &'static str {
    const OTHERS: [(usize, &str); 3] = [(TSC, "rdtsc"), (TSCP, "rdtscp"), (CPU, "getcpu")];
    const NAMES: [&str; 12] = [
        "CLOCK_REALTIME",
        "CLOCK_MONOTONIC",
        "?",
        "?",
        "CLOCK_MONOTONIC_RAW",
        "CLOCK_REALTIME_COARSE",
        "CLOCK_MONOTONIC_COARSE",
        "CLOCK_BOOTTIME",
        "?",
        "?",
        "?",
        "CLOCK_TAI",
    ];
    let source = usize::from(source);
    let other = OTHERS.iter().find(|(n, _)| *n == source);
    let clock = source.checked_sub(CLOCKS as usize);
    other
        .map(|(_, name)| name)
        .or_else(|| NAMES.get(clock?))
        .unwrap_or(&"?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(source: u32, value: u64, extra: u32) -> Entry {
        Entry {
            value,
            source,
            extra,
        }
    }

    #[test]
    fn readings_come_back_in_order_and_whole() {
        let all = [
            entry(CLOCKS + 1, 12, 999_999_999),
            entry(TSC as u32, u64::MAX, 0),
            entry(TSCP as u32, 5, 4097),
            entry(CPU as u32, 3, 1),
            entry(CLOCKS, 1_800_000_000, 0),
        ];
        let mut kept = Kept::default();
        for (i, e) in all.into_iter().enumerate() {
            kept.push(e, 100 + i as u64);
        }
        let Some(Kind::Readings {
            full: false,
            since: 20,
            readings,
        }) = kept.take(120, false)
        else {
            panic!("readings are kept")
        };
        let mut batch = Batch::default();
        batch.load(&readings, 100, false);
        for e in all {
            assert_eq!(batch.take(e.source, 100).ok(), Some(e));
        }
        assert!(matches!(batch.take(0, 100), Err(Misfit::Over)));
        assert!(kept.take(130, false).is_none());
    }

    #[test]
    fn a_thread_that_has_made_some_goes_on_behind_them() {
        let mut kept = Kept::default();
        for (i, tick) in [7, 9, 9, 12].into_iter().enumerate() {
            kept.push(entry(TSC as u32, i as u64, 0), tick);
        }
        assert_eq!(kept.count(), 4);
        let mut batch = Batch::default();
        if let Some(Kind::Readings { readings, .. }) = kept.take(12, false) {
            batch.load(&readings, 7, false);
        }
        assert!(batch.pass(3) && batch.left() == 1);
        let last = batch.take(TSC as u32, 12).map(|entry| entry.value);
        assert_eq!(last.ok(), Some(3));
        // What is written anew begins with that one.
        let (since, made) = batch.settle(15);
        assert_eq!((since, made.len()), (3, 1));
        assert!(!batch.pass(5), "so many there never were");
    }

    #[test]
    fn parts_of_a_batch_come_back_as_one() {
        let mut kept = Kept::default();
        let mut batch = Batch::default();
        for tick in [5, 8] {
            kept.push(entry(TSC as u32, tick, 0), tick);
            if let Some(Kind::Readings { readings, .. }) = kept.take(tick, false) {
                batch.load(&readings, tick, true);
            }
        }
        for tick in [5, 8] {
            let made = batch.take(TSC as u32, tick).map(|entry| entry.value);
            assert_eq!(made.ok(), Some(tick));
        }
        let (since, made) = batch.settle(9);
        assert_eq!((since, made.len()), (4, 2));
    }

    #[test]
    fn readings_that_nobody_settles_are_kept_no_longer_than_they_are_needed() {
        let (mut kept, mut batch) = (Kept::default(), Batch::default());
        for (settles, together) in [(false, 1), (true, 2)] {
            for tick in [5, 8] {
                kept.push(entry(TSC as u32, tick, 0), tick);
                if let Some(Kind::Readings { readings, .. }) = kept.take(tick, false) {
                    batch.load(&readings, tick, settles);
                }
                assert!(batch.take(TSC as u32, tick).is_ok());
            }
            assert_eq!(batch.capture().entries.len(), together);
            batch.settle(9);
        }
    }

    #[test]
    fn another_clock_or_another_tick_does_not_fit() {
        let mut kept = Kept::default();
        kept.push(entry(TSC as u32, 1, 0), 7);
        let mut batch = Batch::default();
        if let Some(Kind::Readings { readings, .. }) = kept.take(9, true) {
            batch.load(&readings, 7, false);
        }
        assert!(matches!(batch.take(1, 7), Err(Misfit::Other(_))));
        assert!(matches!(batch.take(0, 8), Err(Misfit::Other(_))));
        assert!(batch.take(0, 7).is_ok());
    }
}
