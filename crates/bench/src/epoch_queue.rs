//! The queue of epochs of a uniparallel recording, simulated: epochs come as the program makes them, so many cores run one each, and the
//! program waits where too many have not been run (DoublePlay, sections 3 and 4). Must never look at a clock: the same times give the
//! same answer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Seconds by which epochs grow, from none, as `relive record` makes them where all agree at once.
const GROWTH: f64 = 0.05;
/// The longest, in seconds.
const LONGEST: f64 = 1.0;
/// Epochs that may wait for each core before the program does.
const WAITING: usize = 8;

/// An epoch of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedEpoch {
    /// Seconds that the program takes for it, on cores of its own.
    pub run: f64,
    /// Seconds that one core takes to run it again, and to compare its end.
    pub again: f64,
}

/// The epochs of a program that runs so many seconds, where one core takes `rate` seconds to run a second of it again.
pub fn growing(seconds: f64, rate: f64) -> Vec<TimedEpoch> {
    let (mut epochs, mut left, mut length) = (Vec::new(), seconds, 0.0f64);
    while left > 1e-9 {
        length = (length + GROWTH).min(LONGEST);
        let run = length.min(left);
        epochs.push(TimedEpoch {
            run,
            again: run * rate,
        });
        left -= run;
    }
    epochs
}

/// Seconds from the program's start until the last epoch has been run again, by so many spare cores.
///
/// # Panics
/// There are no spare cores.
pub fn seconds(epochs: &[TimedEpoch], spare: usize) -> f64 {
    assert!(spare > 0, "nothing runs an epoch again");
    let mut free: BinaryHeap<Reverse<Moment>> = (0..spare).map(|_| Reverse(Moment(0.0))).collect();
    // When each epoch has been run again, in order; the queue is as long as those that have not.
    let mut ends: Vec<f64> = Vec::with_capacity(epochs.len());
    let mut now = 0.0f64;
    for epoch in epochs {
        now += epoch.run;
        let most = WAITING * spare;
        if ends.len() >= most {
            let mut latest = ends.clone();
            latest.sort_by(|a, b| b.total_cmp(a));
            // So that with this one there are `most` at most.
            now = now.max(latest[most - 1]);
        }
        let Some(Reverse(Moment(core))) = free.pop() else {
            unreachable!("each core that was taken is given back");
        };
        let end = core.max(now) + epoch.again;
        free.push(Reverse(Moment(end)));
        ends.push(end);
    }
    ends.into_iter().fold(now, f64::max)
}

/// A time with an order; none is not a number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-6
    }

    #[test]
    fn epochs_grow_and_fill_the_run() {
        let epochs = growing(30.0, 2.0);
        assert!(close(epochs.iter().map(|epoch| epoch.run).sum(), 30.0));
        assert!(close(epochs[0].run, 0.05) && close(epochs[1].run, 0.1));
        assert!(epochs.iter().all(|epoch| epoch.run < 1.0 + 1e-9));
        assert!(close(epochs[0].again, 0.1));
    }

    #[test]
    fn with_enough_cores_only_the_last_epoch_is_left_behind() {
        let epochs = vec![
            TimedEpoch {
                run: 1.0,
                again: 3.9
            };
            10
        ];
        assert!(close(seconds(&epochs, 4), 10.0 + 3.9));
    }

    #[test]
    fn with_too_few_the_program_waits() {
        let epochs = vec![
            TimedEpoch {
                run: 1.0,
                again: 2.0
            };
            100
        ];
        // One core takes twice as long as the program, which is at most eight epochs ahead of it.
        assert!(close(seconds(&epochs, 1), 1.0 + 200.0));
        let longer = vec![
            TimedEpoch {
                run: 1.0,
                again: 1.0
            };
            100
        ];
        assert!(close(seconds(&longer, 1), 101.0));
    }
}
