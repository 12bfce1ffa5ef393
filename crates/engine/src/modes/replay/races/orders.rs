//! The orders of a recording that may be turned around: accesses of two threads to the same word, one of them a
//! write, in the order of the recording. Atomic instructions count as all others: an order of locks is one too.
//! Left out is an access that cannot come in another order, because a thread began after it, or ended and was joined
//! before it. A list to try, and nothing more: locks may forbid an order that is on it.
//!
//! Calls take part by words beside memory ([`crate::call::words`]): the descriptors and paths that they use and change.
//! A fork has an order with each atomic instruction of another thread, which may hold a lock then. One that sends a signal has one
//! with each access of a thread to a word that its own handlers access.

use std::collections::{HashMap, HashSet};

use relive_sched::SharedAccess;

use super::shadow::{Numbers, parts};
use super::touch::Touch;
use crate::call::words::{CallWord, FORKS, SIGNALS};
use crate::guide::races::{AccessOrder, OrderedAccess};

/// Words whose accesses are kept.
const MOST_WORDS: usize = 1 << 20;
/// Different accesses of a word that are kept.
const MOST_OF_WORD: usize = 64;
/// Orders that are kept.
const MOST: usize = 4096;
/// So many accesses are looked at one by one; of later ones those that are new in a stretch of a thread.
const MOST_ACCESSES: u64 = 20_000_000;
/// Bytes of one access that are looked at.
const MOST_BYTES: u64 = 512;

/// The accesses of threads so far.
#[derive(Default)]
pub struct Orders {
    /// Accesses of each word, each thread's instruction once.
    words: Numbers<Vec<WordAccesses>>,
    accesses: u64,
    /// When each thread began, in accesses of all.
    births: HashMap<u32, u64>,
    /// Words that are cleared at the end of a thread.
    ends: Numbers<u32>,
    /// A thread has found another one ended.
    joined: HashSet<(u32, u32)>,
    /// Threads that execute a signal handler.
    handling: HashSet<u32>,
    /// Accesses whose order against a call of another thread matters: the fork, or the signal that it sends.
    against: HashMap<u64, Against>,
    known: HashSet<AccessOrder>,
    found: Vec<AccessOrder>,
}

/// An instruction's accesses to a word.
struct WordAccesses {
    access: OrderedAccess,
    /// Made by a signal handler.
    handler: bool,
    writes: bool,
    first: u64,
}

/// Calls of one kind, and the accesses that have an order with each of another thread.
#[derive(Default)]
struct Against {
    calls: HashSet<OrderedAccess>,
    accesses: HashSet<OrderedAccess>,
}

impl Orders {
    /// A thread begins: it comes after all accesses until now.
    pub fn begin(&mut self, thread: u32) {
        self.births.insert(thread, self.accesses);
    }

    /// A thread ends, and clears this word.
    pub fn end(&mut self, thread: u32, word: u64) {
        self.ends.insert(word / 8, thread);
    }

    /// A thread looks at a word.
    pub fn looks_at(&mut self, thread: u32, addr: u64) {
        if let Some(ended) = self.ends.get(&(addr / 8)) {
            self.joined.insert((thread, *ended));
        }
    }

    /// A thread makes an access.
    pub fn note(&mut self, thread: u32, touch: &Touch) {
        if touch.call.is_some() {
            return;
        }
        if !self.ends.is_empty() {
            self.looks_at(thread, touch.addr);
        }
        self.accesses += 1;
        let access = OrderedAccess {
            thread,
            site: touch.pc,
        };
        if touch.atomic {
            self.turns_against(FORKS, access, false);
        }
        for part in parts(touch.addr, touch.size.min(MOST_BYTES)) {
            self.note_word(access, part.word / 8, touch.writes);
        }
    }

    /// A thread makes a call that uses and changes these words.
    pub fn note_call(&mut self, access: OrderedAccess, words: &[CallWord]) {
        self.accesses += 1;
        for &(word, writes) in words {
            match word < SharedAccess::ANY_MEMORY {
                true => self.note_word(access, word, writes),
                false => self.turns_against(word, access, true),
            }
        }
    }

    /// A thread begins to execute a signal handler.
    pub fn handles(&mut self, thread: u32) {
        self.handling.insert(thread);
    }

    /// It comes back from there.
    pub fn returns(&mut self, thread: u32) {
        self.handling.remove(&thread);
    }

    /// An access, or a call of this kind, has an order with each of the others.
    fn turns_against(&mut self, word: u64, access: OrderedAccess, is_call: bool) {
        let against = self.against.entry(word).or_default();
        let (own, others) = match is_call {
            true => (&mut against.calls, &against.accesses),
            false => (&mut against.accesses, &against.calls),
        };
        if !own.insert(access) {
            return;
        }
        for &other in others.iter().filter(|o| o.thread != access.thread) {
            for (first, second) in [(access, other), (other, access)] {
                let order = AccessOrder {
                    word,
                    first,
                    second,
                };
                if self.found.len() < MOST && self.known.insert(order) {
                    self.found.push(order);
                }
            }
        }
    }

    fn note_word(&mut self, access: OrderedAccess, word: u64, writes: bool) {
        let OrderedAccess { thread, .. } = access;
        let handler = self.handling.contains(&thread);
        let room = self.words.len() < MOST_WORDS;
        let past = match self.words.get_mut(&word) {
            Some(past) => past,
            None if room => self.words.entry(word).or_default(),
            None => return,
        };
        let birth = self.births.get(&thread).copied().unwrap_or(0);
        let mut interrupted = Vec::new();
        for before in past.iter().filter(|before| before.writes || writes) {
            let other = before.access.thread;
            if other == thread {
                match (before.handler, handler) {
                    (true, false) => interrupted.push(access),
                    (false, true) => interrupted.push(before.access),
                    _ => {}
                }
                continue;
            }
            let meets = before.first > birth && !self.joined.contains(&(thread, other));
            let order = AccessOrder {
                word,
                first: before.access,
                second: access,
            };
            if meets && self.found.len() < MOST && self.known.insert(order) {
                self.found.push(order);
            }
        }
        let same = |p: &WordAccesses| p.access == access && p.handler == handler;
        match past.iter().position(same) {
            Some(there) => past[there].writes |= writes,
            None if past.len() < MOST_OF_WORD => past.push(WordAccesses {
                access,
                handler,
                writes,
                first: self.accesses,
            }),
            None => {}
        }
        for access in interrupted {
            self.turns_against(SIGNALS, access, false);
        }
    }

    /// Whether each access is to be told, also one of memory that the thread has just accessed.
    pub fn wants_all(&self) -> bool {
        self.accesses < MOST_ACCESSES
    }

    /// All that were found, in the order in which they were.
    pub fn found(&self) -> &[AccessOrder] {
        &self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(pc: u64, addr: u64, writes: bool) -> Touch {
        Touch {
            pc,
            addr,
            size: 4,
            writes,
            atomic: false,
            call: None,
        }
    }

    fn pairs(orders: &Orders) -> Vec<(u64, u64)> {
        let found = orders.found().iter();
        found.map(|o| (o.first.site, o.second.site)).collect()
    }

    #[test]
    fn each_order_is_found_once() {
        let mut orders = Orders::default();
        for thread in [1, 2, 1, 2] {
            orders.note(thread, &touch(10, 64, false));
            orders.note(thread, &touch(11, 64, true));
        }
        let of_first = |o: &&AccessOrder| o.first.thread == 1;
        let first = orders.found().iter().filter(of_first);
        let sites: Vec<_> = first.map(|o| (o.first.site, o.second.site)).collect();
        assert_eq!(sites, [(11, 10), (10, 11), (11, 11)]);
        assert_eq!(orders.found().len(), 6);
    }

    #[test]
    fn readers_and_neighbours_have_no_order() {
        let mut orders = Orders::default();
        orders.note(1, &touch(10, 64, false));
        orders.note(2, &touch(11, 64, false));
        orders.note(2, &touch(12, 72, true));
        assert_eq!(pairs(&orders), []);
    }

    #[test]
    fn what_births_and_joins_order_is_left_out() {
        let mut orders = Orders::default();
        orders.note(0, &touch(10, 64, true));
        orders.begin(1);
        orders.note(1, &touch(11, 64, true));
        assert_eq!(pairs(&orders), []);
        orders.end(1, 800);
        orders.note(0, &touch(12, 800, false));
        orders.note(0, &touch(13, 64, true));
        assert_eq!(pairs(&orders), []);
        // Another thread has not seen the end.
        orders.note(2, &touch(14, 64, true));
        assert_eq!(pairs(&orders), [(10, 14), (11, 14), (13, 14)]);
    }

    #[test]
    fn calls_have_orders_by_what_they_share() {
        let mut orders = Orders::default();
        let call = |thread, site| OrderedAccess { thread, site };
        let descriptor = SharedAccess::BESIDE_MEMORY + 5;
        orders.note_call(call(1, 10), &[(descriptor, false)]);
        orders.note_call(call(2, 11), &[(descriptor, false)]);
        assert_eq!(pairs(&orders), []);
        orders.note_call(call(2, 12), &[(descriptor, true)]);
        assert_eq!(pairs(&orders), [(10, 12)]);
    }

    #[test]
    fn forks_have_orders_with_atomic_instructions_of_others() {
        let mut orders = Orders::default();
        let atomic = |pc| Touch {
            atomic: true,
            ..touch(pc, 8 * pc, true)
        };
        orders.note(1, &atomic(10));
        orders.note(2, &atomic(11));
        let fork = OrderedAccess {
            thread: 2,
            site: 20,
        };
        orders.note_call(fork, &[(FORKS, true)]);
        assert_eq!(pairs(&orders), [(20, 10), (10, 20)]);
        orders.note(1, &atomic(10));
        orders.note(3, &touch(12, 640, true));
        assert_eq!(orders.found().len(), 2);
    }

    #[test]
    fn signals_have_orders_with_what_their_handlers_share() {
        let mut orders = Orders::default();
        orders.note(1, &touch(10, 64, true));
        orders.note(1, &touch(11, 72, true));
        let sends = OrderedAccess {
            thread: 2,
            site: 20,
        };
        orders.note_call(sends, &[(SIGNALS, true)]);
        orders.handles(1);
        orders.note(1, &touch(30, 64, false));
        assert_eq!(pairs(&orders), [(10, 20), (20, 10)]);
        orders.returns(1);
        orders.note(1, &touch(12, 64, true));
        assert_eq!(pairs(&orders)[2..], [(12, 20), (20, 12)]);
    }
}
