//! Vector clocks: for each thread, how much of its past is known. They know nothing of a program.

/// A vector clock; threads behind its end are at 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorClock(Vec<u32>);

impl VectorClock {
    /// The time of a thread.
    #[inline]
    pub fn of(&self, thread: usize) -> u32 {
        self.0.get(thread).copied().unwrap_or(0)
    }

    /// Adds one to the time of a thread.
    pub fn advance(&mut self, thread: usize) {
        if self.0.len() <= thread {
            self.0.resize(thread + 1, 0);
        }
        // Past 2^32 epochs of one thread, later ones count as one: races are missed, none made up.
        self.0[thread] = self.0[thread].saturating_add(1);
    }

    /// Moves the time of a thread on to `time`, unless it is there.
    pub fn reach(&mut self, thread: usize, time: u32) {
        if self.0.len() <= thread {
            self.0.resize(thread + 1, 0);
        }
        self.0[thread] = self.0[thread].max(time);
    }

    /// Takes in all that another one knows; whether any of it is new.
    pub fn join(&mut self, other: &Self) -> bool {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut is_new = false;
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            is_new |= *mine < *theirs;
            *mine = (*mine).max(*theirs);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_takes_the_later_time_of_each_thread() {
        let (mut a, mut b) = (VectorClock::default(), VectorClock::default());
        a.advance(0);
        a.advance(0);
        b.advance(3);
        assert!(a.join(&b) && !a.join(&b));
        assert_eq!([0, 1, 2, 3, 4].map(|t| a.of(t)), [2, 0, 0, 1, 0]);
        b.join(&a);
        assert_eq!(a, b);
    }
}
