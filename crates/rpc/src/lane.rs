//! Lanes while recording: buffers that tasks append to, and that the one writer ([`crate::writer`]) empties.
//!
//! Each lane has a lock of its own, held for one append. A lane that becomes non-empty tells the
//! writer so over a queue without a lock; the writer takes the whole buffer and gives back the last
//! one it took. **The message is in the queue before the lane's lock is released, and before a dependence is
//! said to be known**: whoever appends behind a record must find its message there, or the writer commits an epoch
//! with the later record and without the earlier one (`tests/rpc/commits.rs` has the model). A full buffer makes its appender wait for the writer: **no record is dropped while the
//! tape can be written, and when it cannot, the tape ends there and the program goes on.**

use std::any::Any;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::encoder::Encoder;
use crate::header::Mark;
use crate::known::Known;
use crate::name::{Name, NameId};
use crate::record::{LaneKind, Member, Receipt, StreamId, VALUE_MAX};

/// A lane with more bytes than this waits for the writer.
pub(crate) const FULL: usize = 1 << 20;

/// A lock whose holder cannot leave it in a wrong state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message to the writer.
pub(crate) enum Message {
    /// This lane has records.
    Records(Arc<LaneWriter>),
    /// So far goes the pass.
    Pass,
    /// There will be no more.
    End,
}

/// The state that all lanes of a recording share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) process: NameId,
    pub(crate) writer: Sender<Message>,
    /// Whether an appender waits when its lane is full; else its memory grows.
    pub(crate) bounded: bool,
    /// Whether payloads are kept.
    pub(crate) payloads: bool,
    pub(crate) epoch: Arc<AtomicU64>,
    /// The epochs that the process is known to depend on.
    pub(crate) known: Arc<Known>,
}

/// Where a task notes its operations: a lane, which lives as long as the session.
pub(crate) struct Notes {
    pub(crate) lane: Arc<LaneWriter>,
    /// It ends when nothing of it is left.
    pub(crate) _session: Arc<dyn Any + Send + Sync>,
}

/// One lane.
pub(crate) struct LaneWriter {
    state: Mutex<State>,
    emptied: Condvar,
    common: Common,
    number: OnceLock<u32>,
    outside: AtomicU64,
    /// The digest of the mark that one of its tasks got last, and [`IS_KNOWN`].
    known: AtomicU32,
}

/// Digests have 24 bits.
const IS_KNOWN: u32 = 1 << 31;

struct State {
    bytes: Vec<u8>,
    encoder: Encoder,
    receipts: u64,
    /// The writer has been told.
    told: bool,
    /// Nothing is written any more.
    ended: bool,
}

impl LaneWriter {
    pub(crate) fn new(kind: LaneKind, name: &Name, common: Common) -> Arc<Self> {
        let mut bytes = Vec::new();
        let encoder = Encoder::new(&mut bytes, kind, name);
        let state = State {
            bytes,
            encoder,
            receipts: 0,
            told: true,
            ended: false,
        };
        let lane = Arc::new(Self {
            state: Mutex::new(state),
            emptied: Condvar::new(),
            common,
            number: OnceLock::new(),
            outside: AtomicU64::new(0),
            known: AtomicU32::new(0),
        });
        // At once, so that its name is known even if nothing ever happens there.
        let _ = lane.common.writer.send(Message::Records(lane.clone()));
        lane
    }

    /// Notes a receipt, and gives its place in the order of the lane.
    pub(crate) fn receipt(
        self: &Arc<Self>,
        receipt: &Receipt,
        name: &Name,
        sender: Option<Mark>,
    ) -> u64 {
        let unknown = sender.filter(|mark| !self.knows(*mark));
        self.reaches(unknown);
        let mut state = self.room();
        if let Some(mark) = unknown {
            self.learns(&mut state, mark);
        }
        let State { bytes, encoder, .. } = &mut *state;
        encoder.receipt(bytes, receipt, name);
        let place = state.receipts;
        state.receipts += 1;
        self.tell(&mut state);
        place
    }

    /// A number for a request that came from outside.
    pub(crate) fn next_outside(&self) -> u64 {
        self.outside.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes the result of an operation; false if it is too long to be noted.
    #[must_use]
    pub(crate) fn primitive(
        self: &Arc<Self>,
        task: Member,
        number: u64,
        name: &Name,
        value: &[u8],
    ) -> bool {
        if value.len() > VALUE_MAX {
            return false;
        }
        let mut state = self.room();
        let State { bytes, encoder, .. } = &mut *state;
        encoder.primitive(bytes, task, number, name, value);
        self.tell(&mut state);
        true
    }

    /// Notes that the following records depend on those of another process.
    pub(crate) fn depends(self: &Arc<Self>, mark: Mark) {
        // Of most answers the epoch is known, and nothing is noted.
        if !self.knows(mark) {
            self.reaches(Some(mark));
            let mut state = self.room();
            self.learns(&mut state, mark);
        }
        let known = mark.digest() | IS_KNOWN;
        if self.known.load(Ordering::Relaxed) != known {
            self.known.store(known, Ordering::Relaxed);
        }
    }

    /// The digest of the mark that one of its tasks got last.
    pub(crate) fn known(&self) -> Option<u32> {
        let known = self.known.load(Ordering::Relaxed);
        (known != 0).then_some(known & !IS_KNOWN)
    }

    /// Records noted from now on are of no earlier epoch than those they depend on.
    fn reaches(&self, mark: Option<Mark>) {
        if let Some(epoch) = mark.and_then(Mark::reaches) {
            self.common.epoch.fetch_max(epoch, Ordering::SeqCst);
        }
    }

    fn knows(&self, mark: Mark) -> bool {
        mark.process == self.common.process || self.common.known.covers(mark)
    }

    fn learns(self: &Arc<Self>, state: &mut State, mark: Mark) {
        let mark = mark.rounded();
        if let Some(place) = self.common.known.place(mark.process) {
            state.encoder.depends(&mut state.bytes, mark);
            self.tell(state);
            // Only now: tasks that see it note nothing, and their records are of no earlier epoch.
            place.learn(mark.epoch);
        }
    }

    /// How far this process's recording is.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            process: self.common.process,
            epoch: self.common.epoch.load(Ordering::SeqCst),
        }
    }

    pub(crate) fn keeps_payloads(&self) -> bool {
        self.common.payloads
    }

    /// Notes a part of a payload, of [`VALUE_MAX`] bytes at most.
    pub(crate) fn payload(self: &Arc<Self>, task: Member, stream: StreamId, part: &[u8]) {
        let mut state = self.room();
        let State { bytes, encoder, .. } = &mut *state;
        encoder.payload(bytes, task, stream, part);
        self.tell(&mut state);
    }

    /// Notes that a task was given up after so many operations.
    pub(crate) fn cancelled(self: &Arc<Self>, task: Member, operations: u64) {
        let mut state = self.room();
        let State { bytes, encoder, .. } = &mut *state;
        encoder.cancelled(bytes, task, operations);
        self.tell(&mut state);
    }

    fn room(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        while self.common.bounded && state.bytes.len() > FULL && !state.ended {
            let woken = self.emptied.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        let State { bytes, encoder, .. } = &mut *state;
        encoder.epoch(bytes, self.common.epoch.load(Ordering::SeqCst));
        state
    }

    /// Tells the writer of the records, unless it has been told: still under the lane's lock.
    #[inline]
    fn tell(self: &Arc<Self>, state: &mut State) {
        if state.ended {
            state.bytes.clear();
        } else if !std::mem::replace(&mut state.told, true) {
            // Without a writer nothing is written any more, which its failure says.
            let _ = self.common.writer.send(Message::Records(self.clone()));
        }
    }

    /// Its number on the tape, by order of the first frames: `next` where it has none yet.
    pub(crate) fn number(&self, next: impl FnOnce() -> u32) -> u32 {
        *self.number.get_or_init(next)
    }

    /// Takes all bytes, and leaves `spare` in their place.
    pub(crate) fn take(&self, spare: Vec<u8>, ended: bool) -> Vec<u8> {
        let mut state = lock(&self.state);
        state.told = false;
        state.ended |= ended;
        let bytes = std::mem::replace(&mut state.bytes, spare);
        drop(state);
        self.emptied.notify_all();
        bytes
    }
}
