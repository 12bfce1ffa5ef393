//! The guest's descriptors that lead to the recording's standard output and error: followed
//! through dup, fork and exec, so that a replay writes the same bytes to the same stream.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Standard output.
pub const OUT: u8 = 1;
/// Standard error.
pub const ERR: u8 = 2;

/// Descriptors and the stream that each one leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streams {
    known: BTreeMap<i32, u8>,
    /// Set if another process uses the same table: the file behind each stream, as device and inode.
    shared: Option<[Option<Identity>; 2]>,
}

/// Device and inode number.
pub type Identity = (u64, u64);

impl Streams {
    /// The streams of a program that starts.
    #[must_use]
    pub fn standard() -> Self {
        Self::from_pairs([(1, OUT), (2, ERR)])
    }

    /// The given pairs.
    #[must_use]
    pub fn from_pairs(pairs: impl IntoIterator<Item = (i32, u8)>) -> Self {
        Self {
            known: pairs.into_iter().collect(),
            shared: None,
        }
    }

    /// All pairs.
    pub fn pairs(&self) -> impl Iterator<Item = (i32, u8)> {
        self.known.iter().map(|(&fd, &s)| (fd, s))
    }

    /// Forgets whether another process uses the table of descriptors too: a replay has none.
    pub fn forget_others(&mut self) {
        self.shared = None;
    }

    /// Notes that from now on another process uses the table of descriptors too; `identify` returns the
    /// file behind a descriptor.
    pub fn share(&mut self, identify: impl Fn(i32) -> Option<Identity>) {
        let lead = |stream: u8| {
            let mut fds = self.known.iter().filter(|(_, s)| **s == stream);
            fds.find_map(|(&fd, _)| identify(fd))
        };
        self.shared = Some([lead(OUT), lead(ERR)]);
    }

    /// The stream of a descriptor, 0 for none; as [`Streams::of`], but for a table that another
    /// process changes too.
    #[must_use]
    pub fn find(&self, fd: i32, identify: impl Fn(i32) -> Option<Identity>) -> u8 {
        let Some(leads) = self.shared else {
            return self.of(fd);
        };
        let there = identify(fd);
        let fits = |stream: u8| there.is_some() && leads[usize::from(stream) - 1] == there;
        let known = self.of(fd);
        let likely = [known, OUT, ERR].into_iter().filter(|&s| s != 0);
        likely.into_iter().find(|&s| fits(s)).unwrap_or(0)
    }

    /// The stream of a descriptor, 0 for none.
    #[must_use]
    pub fn of(&self, fd: i32) -> u8 {
        self.known.get(&fd).copied().unwrap_or(0)
    }

    /// Notes that `new` is a copy of `old`.
    pub fn dup(&mut self, old: i32, new: i32) {
        match self.of(old) {
            0 => self.close(new),
            s => {
                self.known.insert(new, s);
            }
        }
    }

    /// Notes that a new descriptor leads to a stream.
    pub fn leads(&mut self, fd: i32, stream: u8) {
        self.known.insert(fd, stream);
    }

    /// Notes that a descriptor is closed, or is a new one that leads to no stream.
    pub fn close(&mut self, fd: i32) {
        self.known.remove(&fd);
    }

    /// Notes that a range of descriptors is closed.
    pub fn close_range(&mut self, first: u32, last: u32) {
        self.known
            .retain(|&fd, _| (fd as u32) < first || fd as u32 > last);
    }

    /// Drops the descriptors that exec closes: `open` returns whether one is still open.
    pub fn retain(&mut self, mut open: impl FnMut(i32) -> bool) {
        self.known.retain(|&fd, _| open(fd));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_follow_and_closed_ones_are_forgotten() {
        let mut s = Streams::standard();
        s.dup(1, 7);
        s.dup(5, 1);
        assert_eq!((s.of(7), s.of(1), s.of(2)), (OUT, 0, ERR));
        s.close_range(3, u32::MAX);
        assert_eq!((s.of(7), s.of(2)), (0, ERR));
    }
}
