//! Pieces of work on several threads, whose results come in the order of the pieces. Must never hold more results of a
//! piece than a few.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::replay_process::Interrupter;
use crate::failure::Result;

/// Results of a piece that may wait until the pieces before it are done.
const WAITING: usize = 64;
/// The longest wait between two looks for an interruption.
const LOOK: Duration = Duration::from_millis(50);

/// Where a piece of work puts its results.
pub(super) struct Results<'a, T> {
    to: SyncSender<Result<T>>,
    over: &'a AtomicBool,
}

impl<T> Results<'_, T> {
    /// Hands a result on, once there is room. `false`: nobody wants more.
    pub fn put(&self, result: T) -> bool {
        self.to.send(Ok(result)).is_ok()
    }
}

impl<T> Interrupter for Results<'_, T> {
    fn wanted(&mut self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// How the taking of results ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// All were taken.
    All,
    /// No more were wanted.
    Enough,
    /// It was interrupted.
    Interrupted,
}

/// Does as many pieces of work, on as many threads as there are `jobs`, from the first piece to the last. `take` gets the
/// results of each piece, all of the first before any of the second, and says whether it wants more.
///
/// # Errors
/// Of the first piece, in their order, that fails, once all results before are taken; or of `take`.
pub(super) fn in_order<T: Send>(
    pieces: usize,
    jobs: usize,
    work: &(dyn Fn(usize, &mut Results<'_, T>) -> Result<()> + Sync),
    wanted: &mut dyn Interrupter,
    take: &mut dyn FnMut(usize, T) -> Result<bool>,
) -> Result<Delivery> {
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..pieces)
        .map(|_| sync_channel(WAITING))
        .map(|(to, from)| (Mutex::new(Some(to)), from))
        .unzip();
    let run = || {
        while !over.load(Ordering::Relaxed) {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            let sender = senders.get(piece).and_then(|one| one.lock().ok()?.take());
            let Some(to) = sender else {
                return;
            };
            let mut results = Results { to, over: &over };
            if let Err(failure) = work(piece, &mut results) {
                // Nobody may want it any more.
                let _ = results.to.send(Err(failure));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, pieces.max(1)) {
            scope.spawn(run);
        }
        let taken = take_all(receivers, wanted, take);
        over.store(true, Ordering::Relaxed);
        taken
    })
}

/// The receivers go when it returns, so that no thread waits for room.
fn take_all<T>(
    receivers: Vec<Receiver<Result<T>>>,
    wanted: &mut dyn Interrupter,
    take: &mut dyn FnMut(usize, T) -> Result<bool>,
) -> Result<Delivery> {
    for (piece, from) in receivers.iter().enumerate() {
        loop {
            match from.recv_timeout(LOOK) {
                Ok(result) => {
                    if !take(piece, result?)? {
                        return Ok(Delivery::Enough);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if wanted.wanted() => {
                    return Ok(Delivery::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
    Ok(Delivery::All)
}

#[cfg(test)]
mod tests {
    use super::super::replay_process::Uninterrupted;
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn results_come_in_the_order_of_the_pieces_however_many_threads_there_are() {
        for jobs in [1, 2, 7, 100] {
            let mut all = Vec::new();
            let work = |piece: usize, results: &mut Results<'_, usize>| {
                // Later pieces are done sooner, and have more results than may wait.
                std::thread::sleep(Duration::from_millis(10 - piece as u64));
                for n in 0..3 * WAITING {
                    assert!(results.put(n));
                }
                Ok(())
            };
            let taken = in_order(10, jobs, &work, &mut Uninterrupted, &mut |piece, n| {
                all.push((piece, n));
                Ok(true)
            });
            assert_eq!(taken.unwrap(), Delivery::All);
            let wanted: Vec<_> = (0..10)
                .flat_map(|piece| (0..3 * WAITING).map(move |n| (piece, n)))
                .collect();
            assert_eq!(all, wanted);
        }
    }

    #[test]
    fn the_first_failure_is_told_and_ends_all() {
        let work = |piece: usize, results: &mut Results<'_, usize>| match piece {
            2 => {
                std::thread::sleep(Duration::from_millis(20));
                Err(Failure::setup("the second"))
            }
            5 => Err(Failure::setup("the fifth")),
            _ => {
                while piece > 5 && results.put(piece) {}
                results.put(piece);
                Ok(())
            }
        };
        let mut all = Vec::new();
        let failed = in_order(9, 4, &work, &mut Uninterrupted, &mut |piece, _| {
            all.push(piece);
            Ok(true)
        });
        assert_eq!(failed.unwrap_err().text(), "the second");
        assert_eq!(all, [0, 1]);
    }

    #[test]
    fn it_ends_when_nobody_wants_more() {
        let endless = |piece: usize, results: &mut Results<'_, usize>| {
            while results.put(piece) {}
            Ok(())
        };
        let mut count = 0;
        let taken = in_order(5, 3, &endless, &mut Uninterrupted, &mut |_, _| {
            count += 1;
            Ok(count < 1000)
        });
        assert_eq!((taken.unwrap(), count), (Delivery::Enough, 1000));
    }

    #[test]
    fn an_interruption_reaches_the_work() {
        struct Now;
        impl Interrupter for Now {
            fn wanted(&mut self) -> bool {
                true
            }
        }
        let sleeps = |_: usize, results: &mut Results<'_, ()>| {
            while !results.wanted() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        let taken = in_order(3, 2, &sleeps, &mut Now, &mut |_, ()| Ok(true));
        assert_eq!(taken.unwrap(), Delivery::Interrupted);
    }

    #[test]
    fn no_work_is_done_at_once() {
        let work = |_: usize, _: &mut Results<'_, ()>| Ok(());
        let taken = in_order(0, 2, &work, &mut Uninterrupted, &mut |_, ()| Ok(true));
        assert_eq!(taken.unwrap(), Delivery::All);
    }
}
