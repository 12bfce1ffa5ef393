//! Writing and reading rings: one thread writes each, the supervisor reads all. An event comes into a
//! ring as a whole.

use std::sync::atomic::Ordering;

use relive_host::sys;
use relive_trace::{Short, TapeId, WIDE};

use super::ring::{RING_BYTES, RINGS, Ring, state};
use super::{Logged, Shm};
use crate::failure::{Failure, Result};

impl Shm {
    /// Claims a free ring for a tape.
    ///
    /// # Errors
    /// All rings are in use.
    pub fn claim(&self, tape: TapeId, pid: u32) -> Result<u32> {
        for i in 0..RINGS as u32 {
            let ring = self.ring(i);
            if ring.state.load(Ordering::Relaxed) == state::FREE
                && ring
                    .state
                    .compare_exchange(
                        state::FREE,
                        state::CLAIMED,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    )
                    .is_ok()
            {
                ring.pid.store(pid, Ordering::Relaxed);
                ring.process.store(tape.process, Ordering::Relaxed);
                ring.thread.store(tape.thread, Ordering::Relaxed);
                ring.head.store(0, Ordering::Relaxed);
                ring.tail.store(0, Ordering::Relaxed);
                ring.events.store(0, Ordering::Relaxed);
                ring.notes.store(0, Ordering::Relaxed);
                ring.ticks.store(0, Ordering::Relaxed);
                self.header().rings_used.fetch_max(i + 1, Ordering::AcqRel);
                ring.state.store(state::ACTIVE, Ordering::Release);
                return Ok(i);
            }
        }
        Err(Failure::unsupported(format!(
            "more than {RINGS} threads at once in the recorded processes"
        )))
    }

    /// The tape that a ring belongs to.
    #[must_use]
    pub fn tape(&self, index: u32) -> TapeId {
        let r = self.ring(index);
        TapeId {
            process: r.process.load(Ordering::Relaxed),
            thread: r.thread.load(Ordering::Relaxed),
        }
    }

    /// Appends an event to a ring; waits while there is no room. An event that a ring has room for
    /// comes into it as a whole: of a process that is killed in here nothing is seen of it.
    ///
    /// # Errors
    /// No supervisor reads the ring.
    pub fn push(&self, index: u32, mut bytes: &[u8]) -> Logged {
        let ring = self.ring(index);
        while !bytes.is_empty() {
            let head = ring.head.load(Ordering::Relaxed);
            let used = head - ring.tail.load(Ordering::Acquire);
            let n = match bytes.len() as u64 {
                whole @ ..=RING_BYTES => whole,
                _ => RING_BYTES / 2,
            };
            if used + n > RING_BYTES {
                self.wait_for_room(ring, n)?;
                continue;
            }
            let (part, rest) = bytes.split_at(n as usize);
            let at = head % RING_BYTES;
            let (first, second) = part.split_at(n.min(RING_BYTES - at) as usize);
            for (piece, at) in [(first, at), (second, 0)] {
                // SAFETY: the n bytes from `head` on, of which these are a part up to the end of
                // the ring's data or from its start, are free: only this producer writes there,
                // and the consumer has passed them.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        piece.as_ptr(),
                        self.data(index).add(at as usize),
                        piece.len(),
                    );
                }
            }
            ring.head.store(head + n, Ordering::Release);
            bytes = rest;
            if used <= RING_BYTES / 2 && used + n > RING_BYTES / 2 {
                self.wake_supervisor();
            }
        }
        Ok(())
    }

    /// The same for a small event.
    ///
    /// # Errors
    /// No supervisor reads the ring.
    #[inline]
    pub fn push_short(&self, index: u32, short: &Short) -> Logged {
        let ring = self.ring(index);
        let head = ring.head.load(Ordering::Relaxed);
        let used = head - ring.tail.load(Ordering::Acquire);
        let (at, wide) = (head % RING_BYTES, WIDE as u64);
        let fits = used + wide <= RING_BYTES && at + wide <= RING_BYTES;
        let Some((n, bytes)) = short.wide().filter(|_| fits) else {
            return self.push(index, short.as_slice());
        };
        // SAFETY: [at, at+WIDE) is inside the ring's data and free: only this producer writes
        // there, and the consumer has passed it. It reads no further than `head` says.
        unsafe {
            self.data(index)
                .add(at as usize)
                .cast::<[u8; WIDE]>()
                .write_unaligned(*bytes)
        };
        let n = n as u64;
        ring.head.store(head + n, Ordering::Release);
        if used <= RING_BYTES / 2 && used + n > RING_BYTES / 2 {
            self.wake_supervisor();
        }
        Ok(())
    }

    /// Takes out all bytes of a ring, in at most two pieces.
    pub fn pull(&self, index: u32, mut take: impl FnMut(&[u8])) -> u64 {
        let ring = self.ring(index);
        let (tail, head) = (
            ring.tail.load(Ordering::Relaxed),
            ring.head.load(Ordering::Acquire),
        );
        let mut at = tail;
        while at < head {
            let from = at % RING_BYTES;
            let n = (head - at).min(RING_BYTES - from);
            // SAFETY: [tail, head) was published by the producer, which does not touch it
            // until `tail` has moved.
            take(unsafe {
                std::slice::from_raw_parts(self.data(index).add(from as usize), n as usize)
            });
            at += n;
        }
        if head != tail {
            ring.tail.store(head, Ordering::Release);
            ring.room.fetch_add(1, Ordering::AcqRel);
            if head - tail > RING_BYTES / 2 {
                sys::futex_wake(&ring.room, 1);
            }
        }
        head - tail
    }

    fn wait_for_room(&self, ring: &Ring, wanted: u64) -> Logged {
        let seen = ring.room.load(Ordering::Acquire);
        self.wake_supervisor();
        let used = ring.head.load(Ordering::Relaxed) - ring.tail.load(Ordering::Acquire);
        if used + wanted <= RING_BYTES {
            return Ok(());
        }
        sys::futex_wait(&ring.room, seen, Some(50));
        self.need_supervisor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::Unrecorded;

    /// A thread that is killed while it pushes leaves whole events only.
    #[test]
    fn events_come_into_a_ring_as_a_whole() {
        const EVENT: u64 = 1000;
        const EVENTS: u64 = 5000;
        crate::sections::place();
        let (shm, _fd) = Shm::create().expect("shared memory");
        let tape = TapeId {
            process: 0,
            thread: 0,
        };
        let ring = shm.claim(tape, std::process::id()).expect("a ring");
        let (mut seen, mut parts) = (0, 0);
        std::thread::scope(|threads| {
            threads
                .spawn(|| (0..EVENTS).try_for_each(|i| shm.push(ring, &[i as u8; EVENT as usize])));
            while seen < EVENTS * EVENT {
                let n = shm.pull(ring, |_| ());
                parts += u64::from(n % EVENT != 0);
                seen += n;
            }
        });
        assert_eq!((seen, parts), (EVENTS * EVENT, 0));
    }

    #[test]
    fn a_full_ring_that_nobody_reads_any_more_takes_no_event() {
        crate::sections::place();
        let (shm, _fd) = Shm::create().expect("shared memory");
        let tape = TapeId {
            process: 0,
            thread: 0,
        };
        let ring = shm.claim(tape, std::process::id()).expect("a ring");
        let half = vec![0; RING_BYTES as usize / 2];
        assert_eq!(shm.push(ring, &half), Ok(()));
        assert_eq!(shm.push(ring, &half), Ok(()));
        // No process has this id.
        let gone = i32::MAX as u32;
        shm.header().supervisor.store(gone, Ordering::Release);
        assert_eq!(shm.push(ring, &[0]), Err(Unrecorded));
        assert_eq!(shm.need_supervisor(), Err(Unrecorded));
    }
}
