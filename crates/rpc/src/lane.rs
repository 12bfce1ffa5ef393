//! Lanes while recording: buffers that tasks append to, and the one writer that empties them.
//!
//! Each lane has a lock of its own, held for one append. A lane that becomes non-empty tells the
//! writer so over a queue without a lock; the writer takes the whole buffer and gives back the last
//! one it took. A full buffer makes its appender wait for the writer: **no record is dropped while the
//! tape can be written, and when it cannot, the tape ends there and the program goes on.**

use std::any::Any;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::encoder::Encoder;
use crate::header::Mark;
use crate::known::Known;
use crate::name::{Name, NameId};
use crate::record::{LaneKind, Member, Receipt, StreamId, VALUE_MAX};
use crate::tape;

/// A lane with more bytes than this waits for the writer.
const FULL: usize = 1 << 20;

/// How long records lie in memory at most, but for the time that writing them takes; with the pass behind
/// it bounds the records that a crash loses.
const DELAY: Duration = Duration::from_millis(4);

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

    /// Notes that the following records depend on those of another process.
    pub(crate) fn depends(self: &Arc<Self>, mark: Mark) {
        // Of most answers the epoch is known, and nothing is noted.
        if !self.knows(mark) {
            self.reaches(Some(mark));
            let mut state = self.room();
            self.learns(&mut state, mark);
            self.tell(state);
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

    fn learns(&self, state: &mut State, mark: Mark) {
        let mark = mark.rounded();
        if let Some(place) = self.common.known.place(mark.process) {
            state.encoder.depends(&mut state.bytes, mark);
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

/// Writes a tape.
pub(crate) struct TapeWriter<W> {
    out: W,
    at: u64,
    lanes: u32,
    spare: Vec<u8>,
    /// Frames that are not written yet.
    frames: Vec<u8>,
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
            frames: Vec::new(),
        })
    }

    /// Makes a frame of the records of a lane.
    pub(crate) fn drain(&mut self, lane: &LaneWriter) -> io::Result<()> {
        let bytes = lane.take(std::mem::take(&mut self.spare), false);
        if !bytes.is_empty() {
            let number = *lane.number.get_or_init(|| {
                self.lanes += 1;
                self.lanes - 1
            });
            let at = self.next();
            tape::frame(&mut self.frames, at, number, &bytes);
        }
        self.spare = bytes;
        self.spare.clear();
        match self.frames.len() > FULL {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Where the next frame comes to lie.
    fn next(&self) -> u64 {
        self.at + self.frames.len() as u64
    }

    /// One system call for all lanes of a pass.
    fn write(&mut self) -> io::Result<()> {
        self.out.write_all(&self.frames)?;
        self.at += self.frames.len() as u64;
        self.frames.clear();
        Ok(())
    }

    /// Notes that all records of an epoch, and of those before it, are written.
    fn commit(&mut self, epoch: u64) -> io::Result<()> {
        let at = self.next();
        tape::commit(&mut self.frames, at, epoch);
        self.write()
    }

    /// Writes the end.
    pub(crate) fn end(mut self) -> io::Result<W> {
        let at = self.next();
        tape::end(&mut self.frames, at);
        self.write()?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Ends an epoch, unless a peer's has ended it since the last pass: peers that talk to each other have one
/// beat. Gives the last one that has ended.
fn ended(epoch: &AtomicU64, seen: &mut u64) -> u64 {
    let next = *seen + 1;
    let mine = epoch.compare_exchange(*seen, next, Ordering::SeqCst, Ordering::SeqCst);
    *seen = mine.map_or_else(|reached| reached, |_| next);
    *seen - 1
}

/// The writer's thread: writes the records of lanes until it is told of the end.
pub(crate) fn write_all<W: Write>(
    mut tape: TapeWriter<W>,
    messages: &Receiver<Message>,
    itself: &Sender<Message>,
    epoch: &AtomicU64,
) -> io::Result<()> {
    let mut seen = 0;
    loop {
        let Ok(Message::Records(first)) = messages.recv() else {
            return tape.end().map(drop);
        };
        std::thread::sleep(DELAY);
        // Until a pass finds nothing, it is not woken by tasks that note: they would pay for that.
        let mut first = Some(first);
        while let Some(lane) = first.take() {
            let before = ended(epoch, &mut seen);
            let _ = itself.send(Message::Pass);
            tape.drain(&lane)?;
            drop(lane);
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
            std::thread::sleep(DELAY);
            first = match messages.try_recv() {
                Ok(Message::Records(lane)) => Some(lane),
                Ok(Message::Pass | Message::End) => return tape.end().map(drop),
                Err(_) => None,
            };
        }
    }
}

/// Lets all tasks go on that wait for a writer that writes no more, until the last lane is gone.
pub(crate) fn discard_all(messages: &Receiver<Message>) {
    while let Ok(message) = messages.recv() {
        if let Message::Records(lane) = message {
            lane.take(Vec::new(), true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causal::cut;
    use crate::id::{Origin, Path, RequestId, TaskId};
    use crate::tape::Tape;
    use std::sync::mpsc::channel;

    /// A process whose passes come when the test says so.
    struct Process {
        name: Name,
        lane: Arc<LaneWriter>,
        tape: TapeWriter<Vec<u8>>,
        seen: u64,
        _messages: Receiver<Message>,
    }

    impl Process {
        fn new(name: &str) -> Self {
            let name = Name::new(name).expect("it is a name");
            let (writer, _messages) = channel();
            let common = Common {
                process: name.id(),
                writer,
                bounded: false,
                payloads: false,
                epoch: Arc::default(),
                known: Arc::default(),
            };
            Self {
                lane: LaneWriter::new(LaneKind::Entry, &name, common),
                tape: TapeWriter::new(Vec::new(), &name).expect("memory takes all"),
                name,
                seen: 0,
                _messages,
            }
        }

        fn passes(&mut self) {
            let before = ended(&self.lane.common.epoch, &mut self.seen);
            self.tape.drain(&self.lane).expect("memory takes all");
            self.tape.commit(before).expect("memory takes all");
        }

        fn receives(&self, number: u64, from: &Self) {
            let task = TaskId {
                process: from.name.id(),
                origin: Origin::Root(from.name.id()),
                path: Path::default(),
            };
            let receipt = Receipt {
                id: RequestId { task, number },
                entry: self.name.id(),
                content: None,
            };
            self.lane
                .receipt(&receipt, &self.name, Some(from.lane.mark()));
        }

        fn is_read(&self) -> Tape {
            Tape::parse(&self.tape.out).expect("it was written so")
        }
    }

    /// Requests and answers all the time, and passes in turn: a cut of one tape must not cut the
    /// other one before it, which would cut the first one again, and so on to the beginning.
    #[test]
    fn a_cut_stays_where_it_is() {
        for late in [false, true] {
            let (mut one, mut other) = (Process::new("one"), Process::new("other"));
            // One is older by some passes, so that their epochs differ.
            (0..7 * u32::from(late)).for_each(|_| one.passes());
            for number in 0..400 {
                other.receives(number, &one);
                one.lane.depends(other.lane.mark());
                match number % 4 {
                    1 => one.passes(),
                    3 if number < 380 => other.passes(),
                    _ => {}
                }
            }
            let tapes = [one.is_read(), other.is_read()];
            let ends = [tapes[0].until, tapes[1].until];
            assert!(ends[1] + 2 < ends[0] && ends[0] < 110, "one beat: {ends:?}");
            let untils = cut(&tapes);
            assert!(untils.iter().all(|until| until + 2 > ends[1]), "{untils:?}");
        }
    }
}
