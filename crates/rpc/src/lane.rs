//! Lanes while recording: buffers that tasks append to, and the one writer that empties them.
//!
//! Each lane has a lock of its own, held for one append. A lane that becomes non-empty tells the
//! writer so over a queue without a lock; the writer takes the whole buffer and gives back the last
//! one it took. A full buffer makes its appender wait for the writer: **no record is dropped while the
//! tape can be written, and when it cannot, the tape ends there and the program goes on.**

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::encoder::Encoder;
use crate::header::Mark;
use crate::name::{Name, NameId};
use crate::record::{LaneKind, Member, Receipt, StreamId, VALUE_MAX};
use crate::tape;

/// A lane with more bytes than this waits for the writer.
const FULL: usize = 1 << 20;

/// Processes that a lane remembers to depend on.
const PEERS_MAX: usize = 64;

/// How long records lie in memory at most, but for the time that writing them takes.
const DELAY: Duration = Duration::from_millis(5);

/// A lock whose holder cannot leave it in a wrong state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the writer is told.
pub(crate) enum Message {
    /// This lane has records.
    Records(Arc<LaneWriter>),
    /// So far goes the pass.
    Pass,
    /// There will be no more.
    End,
}

/// What all lanes of a recording share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) process: NameId,
    pub(crate) writer: Sender<Message>,
    /// Whether an appender waits when its lane is full; else its memory grows.
    pub(crate) bounded: bool,
    /// Whether payloads are kept.
    pub(crate) payloads: bool,
    pub(crate) epoch: Arc<AtomicU64>,
}

/// One lane.
pub(crate) struct LaneWriter {
    state: Mutex<State>,
    emptied: Condvar,
    common: Common,
    number: OnceLock<u32>,
    outside: AtomicU64,
}

struct State {
    bytes: Vec<u8>,
    encoder: Encoder,
    receipts: u64,
    /// The last epoch of other processes that this lane depends on.
    depends: Vec<Mark>,
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
            depends: Vec::new(),
            told: true,
            ended: false,
        };
        let lane = Arc::new(Self {
            state: Mutex::new(state),
            emptied: Condvar::new(),
            common,
            number: OnceLock::new(),
            outside: AtomicU64::new(0),
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
        let mut state = self.room();
        if let Some(mark) = sender {
            state.depends(mark, self.common.process);
        }
        let State { bytes, encoder, .. } = &mut *state;
        encoder.receipt(bytes, receipt, name);
        let place = state.receipts;
        state.receipts += 1;
        self.tell(state);
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
        self.tell(state);
        true
    }

    /// Notes that what follows depends on what another process recorded.
    pub(crate) fn depends(self: &Arc<Self>, mark: Mark) {
        // Of most answers the epoch is known, and nothing is noted.
        if lock(&self.state).knows(mark, self.common.process) {
            return;
        }
        let mut state = self.room();
        state.depends(mark, self.common.process);
        self.tell(state);
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
        self.tell(state);
    }

    /// Notes that a task was given up after so many operations.
    pub(crate) fn cancelled(self: &Arc<Self>, task: Member, operations: u64) {
        let mut state = self.room();
        let State { bytes, encoder, .. } = &mut *state;
        encoder.cancelled(bytes, task, operations);
        self.tell(state);
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

    #[inline]
    fn tell(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.ended {
            state.bytes.clear();
        } else if !std::mem::replace(&mut state.told, true) {
            drop(state);
            // Without a writer nothing is written any more, which its failure says.
            let _ = self.common.writer.send(Message::Records(self.clone()));
        }
    }

    /// Takes all bytes, and leaves `spare` in their place.
    fn take(&self, spare: Vec<u8>, ended: bool) -> Vec<u8> {
        let mut state = lock(&self.state);
        state.told = false;
        state.ended |= ended;
        let bytes = std::mem::replace(&mut state.bytes, spare);
        drop(state);
        self.emptied.notify_all();
        bytes
    }
}

impl State {
    fn knows(&self, mark: Mark, own: NameId) -> bool {
        let covers = |known: &Mark| known.process == mark.process && known.epoch >= mark.epoch;
        mark.process == own || self.depends.iter().any(covers)
    }

    fn depends(&mut self, mark: Mark, own: NameId) {
        if self.knows(mark, own) {
            return;
        }
        let of = |known: &Mark| known.process == mark.process;
        match self.depends.iter().position(of) {
            Some(at) => self.depends[at] = mark,
            None if self.depends.len() < PEERS_MAX => self.depends.push(mark),
            // Of so many, some may be made up.
            None => return,
        }
        self.encoder.depends(&mut self.bytes, mark);
    }
}

/// Writes a tape.
pub(crate) struct TapeWriter<W> {
    out: W,
    at: u64,
    lanes: u32,
    spare: Vec<u8>,
    frame: Vec<u8>,
}

impl<W: Write> TapeWriter<W> {
    pub(crate) fn new(mut out: W, process: &Name) -> io::Result<Self> {
        let head = tape::head(process);
        out.write_all(&head)?;
        Ok(Self {
            out,
            at: head.len() as u64,
            lanes: 0,
            spare: Vec::new(),
            frame: Vec::new(),
        })
    }

    /// Writes the records of a lane as a frame.
    pub(crate) fn drain(&mut self, lane: &LaneWriter) -> io::Result<()> {
        let bytes = lane.take(std::mem::take(&mut self.spare), false);
        if !bytes.is_empty() {
            let number = *lane.number.get_or_init(|| {
                self.lanes += 1;
                self.lanes - 1
            });
            self.frame.clear();
            tape::frame(&mut self.frame, self.at, number, &bytes);
            self.out.write_all(&self.frame)?;
            self.at += self.frame.len() as u64;
        }
        self.spare = bytes;
        self.spare.clear();
        Ok(())
    }

    /// Notes that all records of an epoch, and of those before it, are written.
    fn commit(&mut self, epoch: u64) -> io::Result<()> {
        self.frame.clear();
        tape::commit(&mut self.frame, self.at, epoch);
        self.out.write_all(&self.frame)?;
        self.at += self.frame.len() as u64;
        Ok(())
    }

    /// Writes the end.
    pub(crate) fn end(mut self) -> io::Result<W> {
        self.frame.clear();
        tape::end(&mut self.frame, self.at);
        self.out.write_all(&self.frame)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// The writer's thread: writes what lanes tell of until it is told of the end.
pub(crate) fn write_all<W: Write>(
    mut tape: TapeWriter<W>,
    messages: &Receiver<Message>,
    itself: &Sender<Message>,
    epoch: &AtomicU64,
) -> io::Result<()> {
    loop {
        let Ok(Message::Records(first)) = messages.recv() else {
            return tape.end().map(drop);
        };
        std::thread::sleep(DELAY);
        let before = epoch.fetch_add(1, Ordering::SeqCst);
        let _ = itself.send(Message::Pass);
        tape.drain(&first)?;
        let mut ends = false;
        loop {
            match messages.recv() {
                Ok(Message::Records(lane)) => tape.drain(&lane)?,
                Ok(Message::End) => ends = true,
                Ok(Message::Pass) | Err(_) => break,
            }
        }
        if ends {
            return tape.end().map(drop);
        }
        tape.commit(before)?;
    }
}

/// Lets everybody go on who waits for a writer that writes no more, until the last lane is gone.
pub(crate) fn discard_all(messages: &Receiver<Message>) {
    while let Ok(message) = messages.recv() {
        if let Message::Records(lane) = message {
            lane.take(Vec::new(), true);
        }
    }
}
