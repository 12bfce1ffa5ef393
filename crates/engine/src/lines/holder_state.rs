//! The directory's view of a thread: what it keeps, what it waits for, and what others wait for. Must never be changed without
//! the directory's lock.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use relive_host::permissions::Permissions;

use super::line_holder::{Holder, Mark};
use super::line_ranges::{KeptLines, LineRange};
use super::page_holders::{HolderPlace, PageHolders};

/// A thread.
pub(super) struct HolderState {
    pub(super) holder: Arc<Holder>,
    /// Where the pages name it.
    pub(super) place: HolderPlace,
    /// What others ask it for.
    pub(super) asked_for: Vec<LineAsk>,
    /// Lines that it keeps until the access at hand has been made.
    pub(super) pinned: KeptLines,
    /// The marks of others that it comes behind, and has not said so.
    pub(super) behind: Vec<(u32, Mark)>,
    /// The last mark of each other thread that it has said to come behind.
    pub(super) known: BTreeMap<u32, Mark>,
    /// So many of the threads that have ended are behind it.
    pub(super) ended: usize,
    /// The thread that it has asked.
    pub(super) asks: Option<u32>,
    /// The line that it waits to write: none gets it as a reader before.
    pub(super) waits_to_write: Option<u32>,
    /// The lines that it needs behind the one that it waits for.
    pub(super) needs: Vec<LineRange>,
}

/// A line that a thread asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LineAsk {
    pub(super) by: u32,
    pub(super) line: u32,
    pub(super) writes: bool,
}

impl HolderState {
    /// A thread that has nothing, and comes behind the end of so many others.
    pub(super) fn new(holder: Arc<Holder>, place: HolderPlace, ended: usize) -> Self {
        Self {
            holder,
            place,
            asked_for: Vec::new(),
            pinned: KeptLines::default(),
            behind: Vec::new(),
            known: BTreeMap::new(),
            ended,
            asks: None,
            waits_to_write: None,
            needs: Vec::new(),
        }
    }

    pub(super) fn thread(&self) -> u32 {
        self.holder.thread
    }

    pub(super) fn table(&self) -> &Permissions {
        &self.holder.table
    }

    pub(super) fn comes_behind(&mut self, thread: u32, mark: Mark) {
        if thread == self.thread() {
            return;
        }
        match self.behind.iter_mut().find(|(other, _)| *other == thread) {
            Some((_, known)) => *known = mark.max(*known),
            None => self.behind.push((thread, mark)),
        }
    }

    /// Whether an ask has to wait until this thread has made the access at hand, at rest or not.
    pub(super) fn comes_first(&self, line: u32, writes: bool) -> bool {
        self.pinned.contains(line) || !writes && self.waits_to_write == Some(line)
    }

    /// The first of these lines that it has.
    pub(super) fn first_line(&self, pages: &PageHolders, lines: Range<u32>) -> Option<u32> {
        let mut from = lines.start;
        loop {
            let page = pages.next_page(self.place, from..lines.end)?;
            let found = self.table().first_permitted(page.clone());
            if found.is_some() || page.end == lines.end {
                return found;
            }
            from = page.end;
        }
    }
}
