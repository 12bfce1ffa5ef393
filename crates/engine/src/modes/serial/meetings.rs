//! The words in which threads of a process meet: two of them access it, one of them writes, and the order
//! of both is chance, for neither thread began after the other's access.
//!
//! A guess for the sampler: locks and joins order many of these accesses, and some accesses are not seen.
//! It must never be taken for a list of races.

use std::collections::HashMap;

use relive_sched::SharedAccess;

/// Places for instructions that access no memory: a power of two.
const QUIET: usize = 1 << 12;

/// The accesses of a process's threads so far.
#[derive(Default)]
pub struct Meetings {
    /// By number (address / 8).
    words: HashMap<u64, Word>,
    /// When each thread began, in accesses of all.
    births: HashMap<u32, u64>,
    accesses: u64,
    /// Instructions that access no memory, each at the place that its address gives.
    quiet: Vec<u64>,
}

/// The accesses to a word: the last writes and reads, two of each, by different threads.
#[derive(Default)]
struct Word {
    writes: [Access; 2],
    reads: [Access; 2],
    /// Threads have met here.
    met: bool,
}

/// An access; `when` 0 is none.
#[derive(Clone, Copy, Default)]
struct Access {
    thread: u32,
    site: u64,
    when: u64,
}

impl Meetings {
    /// A thread begins: it comes after all accesses until now.
    pub fn begin(&mut self, thread: u32) {
        self.births.insert(thread, self.accesses);
    }

    /// Notes an access. Says whether threads meet in this word, and the instructions of the accesses
    /// that this one meets.
    pub fn note(&mut self, thread: u32, access: SharedAccess) -> (bool, Vec<u64>) {
        self.accesses += 1;
        let now = Access {
            thread,
            site: access.site,
            when: self.accesses,
        };
        let birth = self.births.get(&thread).copied().unwrap_or(0);
        let word = self.words.entry(access.word).or_default();
        let others = word.met_by(&now, access.writes, birth);
        word.met |= !others.is_empty();
        word.add(now, access.writes);
        (word.met, others)
    }

    /// Whether the instruction there accessed no memory when it was last looked at. Code that changes
    /// may make this wrong; then an access is not seen.
    #[must_use]
    pub fn is_quiet(&self, site: u64) -> bool {
        self.quiet.get(site as usize % QUIET) == Some(&site)
    }

    /// The instruction there accesses no memory.
    pub fn note_quiet(&mut self, site: u64) {
        self.quiet.resize(QUIET, 0);
        self.quiet[site as usize % QUIET] = site;
    }
}

impl Word {
    /// The instructions of other threads' accesses whose order against this one is chance.
    fn met_by(&self, now: &Access, writes: bool, birth: u64) -> Vec<u64> {
        let reads = self.reads.iter().filter(|_| writes);
        let others = self.writes.iter().chain(reads);
        let chance = |before: &&Access| before.thread != now.thread && before.when > birth;
        others.filter(chance).map(|before| before.site).collect()
    }

    fn add(&mut self, now: Access, writes: bool) {
        let last = match writes {
            true => &mut self.writes,
            false => &mut self.reads,
        };
        if last[0].thread != now.thread {
            last[1] = last[0];
        }
        last[0] = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(site: u64, writes: bool) -> SharedAccess {
        SharedAccess {
            site,
            word: 7,
            writes,
        }
    }

    #[test]
    fn a_write_meets_reads_and_writes_of_others() {
        let mut meetings = Meetings::default();
        assert_eq!(meetings.note(0, access(1, false)), (false, vec![]));
        assert_eq!(meetings.note(1, access(2, false)), (false, vec![]));
        // The thread's own read does not hide the other one's.
        assert_eq!(meetings.note(1, access(3, true)), (true, vec![1]));
        assert_eq!(meetings.note(0, access(4, false)), (true, vec![3]));
        // The same thread again meets none; the word stays one where threads meet.
        let elsewhere = SharedAccess {
            word: 8,
            ..access(5, true)
        };
        assert_eq!(meetings.note(0, elsewhere), (false, vec![]));
    }

    #[test]
    fn a_new_thread_comes_after_all_that_was_before() {
        let mut meetings = Meetings::default();
        meetings.note(0, access(1, true));
        meetings.begin(1);
        assert_eq!(meetings.note(1, access(2, true)), (false, vec![]));
        assert_eq!(meetings.note(0, access(3, true)), (true, vec![2]));
    }
}
