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

    /// Takes in all that another one knows.
    pub fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
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
        a.join(&b);
        assert_eq!([0, 1, 2, 3, 4].map(|t| a.of(t)), [2, 0, 0, 1, 0]);
        b.join(&a);
        assert_eq!(a, b);
    }
}
