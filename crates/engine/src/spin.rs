//! The parts of a slice of one thread, and its history of spinning: data for serial recording, which
//! looks for threads that spin (`modes/serial/spinning.rs`).

use relive_host::{GuestAddr, copy};

/// Ticks of the first part of a slice, for a thread that was not found spinning last time.
const FIRST: i64 = 1 << 10;
/// The factor by which each part is longer than the one before.
const GROWTH: i64 = 4;
/// Ticks of the first part for a thread that was found spinning.
const PATIENCE: i64 = 1 << 6;
/// The most doublings of that part, while the thread finds no word changed: the part is long enough
/// then for switches to cost little.
const MOST_DOUBLINGS: u32 = 8;
/// The number of remembered places where a thread was not spinning, and of checks to skip there.
const PLACES: usize = 8;
const LEFT_OUT: u8 = 32;
/// Most addresses whose values are compared when a spinning thread runs again.
const MOST_WORDS: usize = 8;

/// The slice and the spinning of one thread.
#[derive(Default)]
pub struct Spin {
    /// Ticks of the slice behind the part at hand.
    left: i64,
    /// Ticks of the part at hand.
    part: i64,
    /// It was found spinning when it last ran, and so many times in a row before, with no word
    /// changed meanwhile.
    doublings: Option<u32>,
    /// The place where it was found so, the addresses that it read, and their values when it was last looked at.
    place: u64,
    words: Vec<(u64, u64)>,
    /// It has one part more to show that these values stay.
    on_trial: bool,
    /// Places where it was not spinning, and the number of checks still to skip there.
    busy: [(u64, u8); PLACES],
    next: usize,
}

impl Spin {
    /// A slice without parts, of a thread for which no other thread can wait.
    pub fn all(&mut self, ticks: i64) -> i64 {
        self.left = 0;
        self.doublings = None;
        ticks
    }

    /// The slice ends with the part at hand.
    pub fn ends(&mut self) {
        self.left = 0;
    }

    /// A new slice of so many ticks; returns the first part.
    pub fn begin(&mut self, ticks: i64) -> i64 {
        let first = match self.doublings {
            Some(n) => PATIENCE << n,
            None => FIRST,
        };
        self.part = first.min(ticks);
        self.left = ticks - self.part;
        self.part
    }

    /// The next part of the slice, if there is one.
    pub fn next_part(&mut self) -> Option<i64> {
        self.doublings = None;
        if self.left == 0 {
            return None;
        }
        self.part = (self.part * GROWTH).min(self.left);
        self.left -= self.part;
        Some(self.part)
    }

    /// Whether the slice has ticks left.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.left > 0
    }

    /// Whether a check for spinning at this place can be skipped.
    pub fn is_busy(&mut self, pc: u64) -> bool {
        let place = self.busy.iter_mut().find(|(at, n)| *at == pc && *n > 0);
        place.is_some_and(|(_, n)| {
            *n -= 1;
            true
        })
    }

    pub fn note_busy(&mut self, pc: u64) {
        self.busy[self.next] = (pc, LEFT_OUT);
        self.next = (self.next + 1) % PLACES;
    }

    /// Notes that the thread spins at this place, and reads these addresses.
    pub fn note_spinning(&mut self, place: u64, addresses: &[u64]) {
        let words = words(addresses.iter().take(MOST_WORDS).copied());
        let unchanged = self.doublings.filter(|_| words == self.words);
        self.doublings = Some(unchanged.map_or(0, |n| (n + 1).min(MOST_DOUBLINGS)));
        (self.place, self.words) = (place, words);
    }

    /// Notes that the thread runs again: if a word that it reads has changed, its doublings start anew.
    pub fn wakes(&mut self) {
        if self.doublings.is_some() && self.has_changed() {
            self.doublings = Some(0);
        }
    }

    /// What is known, at the end of a part, of a thread at this place without a look at its steps.
    pub fn known(&mut self, place: u64) -> KnownSpin {
        let was_on_trial = std::mem::take(&mut self.on_trial);
        if place != self.place || self.words.is_empty() {
            return KnownSpin::Unknown;
        }
        match (self.has_changed(), self.doublings) {
            (false, Some(n)) => {
                self.doublings = Some((n + 1).min(MOST_DOUBLINGS));
                KnownSpin::Spins
            }
            _ if was_on_trial => KnownSpin::Unknown,
            // It has done something else since, or finds a change: its memory may be as it was by chance.
            _ => {
                (self.doublings, self.on_trial) = (Some(0), true);
                KnownSpin::OnTrial(PATIENCE)
            }
        }
    }

    /// Whether a word has another value than at the last look; the values are those of now from here on.
    fn has_changed(&mut self) -> bool {
        let now = words(self.words.iter().map(|(at, _)| *at));
        let before = std::mem::replace(&mut self.words, now);
        before != self.words
    }
}

/// What is known of a thread that was found spinning before.
#[derive(Debug, PartialEq, Eq)]
pub enum KnownSpin {
    /// It is back where it was, and the memory that it reads is as it was.
    Spins,
    /// It spins if it is back here after so many ticks, and that memory is as now.
    OnTrial(i64),
    /// Its steps must be looked at.
    Unknown,
}

fn words(addresses: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    addresses.filter_map(|at| Some((at, word(at)?))).collect()
}

fn word(at: u64) -> Option<u64> {
    let bytes = copy::read_array::<8>(GuestAddr(at)).ok()?;
    Some(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Guest;

    fn parts(spin: &mut Spin, ticks: i64) -> Vec<i64> {
        let mut all = vec![spin.begin(ticks)];
        while let Some(part) = spin.next_part() {
            all.push(part);
        }
        all
    }

    #[test]
    fn a_slice_is_granted_whole_in_growing_parts() {
        let mut spin = Spin::default();
        assert_eq!(parts(&mut spin, 100), [100]);
        assert_eq!(
            parts(&mut spin, 10_000),
            [1 << 10, 4 << 10, 10_000 - (5 << 10)]
        );
        for ticks in [1, FIRST, FIRST + 1, relive_sched::SLICE_MAX as i64] {
            assert_eq!(parts(&mut spin, ticks).iter().sum::<i64>(), ticks);
            assert!(!spin.goes_on());
        }
        assert_eq!(spin.all(7), 7);
        assert_eq!(spin.next_part(), None);
    }

    #[test]
    fn a_thread_that_finds_nothing_changed_is_checked_more_seldom() {
        let mut spin = Spin::default();
        spin.note_spinning(0, &[]);
        assert_eq!(spin.begin(1 << 20), PATIENCE);
        for n in 1..20 {
            spin.wakes();
            spin.note_spinning(0, &[]);
            assert_eq!(spin.begin(1 << 20), PATIENCE << n.min(MOST_DOUBLINGS));
        }
        spin.next_part();
        assert_eq!(spin.begin(1 << 20), FIRST, "it did something else");
    }

    #[test]
    fn a_thread_that_finds_a_change_is_checked_soon() {
        let mut spin = Spin::default();
        spin.note_spinning(0, &[]);
        spin.note_spinning(0, &[]);
        spin.words = vec![(0, 1)];
        spin.wakes();
        assert_eq!(spin.begin(1 << 20), PATIENCE);
    }

    #[test]
    fn a_thread_that_was_found_spinning_is_known_by_its_place_and_memory() {
        let mut guest = Guest::new();
        let at = 0x1000_3000_0000;
        guest.map(at, 0x1000);
        let change = |to: u64| copy::write(GuestAddr(at), &to.to_le_bytes()).expect("it is mapped");
        let mut spin = Spin::default();
        assert_eq!(spin.known(7), KnownSpin::Unknown, "it never spun");
        spin.note_spinning(7, &[at]);
        assert_eq!(spin.known(8), KnownSpin::Unknown, "elsewhere");
        assert_eq!(spin.known(7), KnownSpin::Spins);
        assert_eq!(spin.begin(1 << 20), PATIENCE << 1);
        change(2);
        assert_eq!(spin.known(7), KnownSpin::OnTrial(PATIENCE));
        assert_eq!(spin.known(7), KnownSpin::Spins);
        change(3);
        assert_eq!(spin.known(7), KnownSpin::OnTrial(PATIENCE));
        change(4);
        assert_eq!(spin.known(7), KnownSpin::Unknown, "it works");
        assert_eq!(spin.known(7), KnownSpin::Spins);
        spin.next_part();
        let on_trial = KnownSpin::OnTrial(PATIENCE);
        assert_eq!(spin.known(7), on_trial, "it did something else");
        assert_eq!(spin.known(7), KnownSpin::Spins);
    }

    #[test]
    fn a_busy_place_is_left_out_for_a_while() {
        let mut spin = Spin::default();
        spin.note_busy(7);
        assert_eq!(
            (0..100).filter(|_| spin.is_busy(7)).count(),
            usize::from(LEFT_OUT)
        );
        assert!(!spin.is_busy(8));
        (0..PLACES as u64).for_each(|pc| spin.note_busy(100 + pc));
        assert!(!spin.is_busy(7));
    }
}
