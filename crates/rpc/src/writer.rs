//! The writer of a tape: one thread, which takes the records of lanes in passes, and ends an epoch with each. Must
//! never commit an epoch of which a record is not written, nor hold a lane's lock while it writes.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use crate::lane::{FULL, LaneWriter, Message};
use crate::name::Name;
use crate::tape;

/// How long records lie in memory at most, but for the time that writing them takes; with the pass behind
/// it bounds the records that a crash loses.
const DELAY: Duration = Duration::from_millis(4);

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
            let number = lane.number(|| {
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
    use crate::lane::Common;
    use crate::record::{LaneKind, Receipt};
    use crate::tape::Tape;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    /// A process whose passes come when the test says so.
    struct Process {
        name: Name,
        lane: Arc<LaneWriter>,
        tape: TapeWriter<Vec<u8>>,
        epoch: Arc<AtomicU64>,
        seen: u64,
        _messages: Receiver<Message>,
    }

    impl Process {
        fn new(name: &str) -> Self {
            let name = Name::new(name).expect("it is a name");
            let (writer, _messages) = channel();
            let epoch: Arc<AtomicU64> = Arc::default();
            let common = Common {
                process: name.id(),
                writer,
                bounded: false,
                payloads: false,
                epoch: epoch.clone(),
                known: Arc::default(),
            };
            Self {
                lane: LaneWriter::new(LaneKind::Entry, &name, common),
                tape: TapeWriter::new(Vec::new(), &name).expect("memory takes all"),
                name,
                epoch,
                seen: 0,
                _messages,
            }
        }

        fn passes(&mut self) {
            let before = ended(&self.epoch, &mut self.seen);
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
