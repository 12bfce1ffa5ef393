//! The recording side of a session: its lanes, and the thread that writes them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};

use crate::header::Mark;
use crate::lane::{Common, LaneWriter, Message, lock};
use crate::name::{Name, NameId};
use crate::record::LaneKind;
use crate::writer::{TapeWriter, discard_all, write_all};

/// The content that a recording keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Orders of receipt and results of primitives: enough for a replay of all processes together.
    Order,
    /// Also requests and answers, where they are known as bytes: enough for a replay of one process
    /// alone. Every reader of the tape reads them.
    Payloads,
}

/// Gives lanes, and ends them.
pub(crate) struct Recorder {
    common: Common,
    pub(crate) failure: Arc<OnceLock<String>>,
    ending: Mutex<Option<Ending>>,
}

enum Ending {
    /// Hangs up when the writer has written its last.
    Thread(Receiver<()>),
    Memory(Receiver<Message>),
}

impl Recorder {
    /// Starts the writer's thread.
    pub(crate) fn to_writer<W: Write + Send + 'static>(
        tape: TapeWriter<W>,
        process: NameId,
        keep: Keep,
    ) -> io::Result<Self> {
        let (writer, messages) = channel();
        let failure = Arc::new(OnceLock::new());
        let epoch = Arc::new(AtomicU64::new(0));
        let (said, counted, itself) = (failure.clone(), epoch.clone(), writer.clone());
        let (writes, ended) = channel::<()>();
        let run = move || {
            if let Err(error) = write_all(tape, &messages, &itself, &counted) {
                said.get_or_init(|| error.to_string());
            }
            drop((writes, itself));
            discard_all(&messages);
        };
        let thread = std::thread::Builder::new().name("relive-rpc".to_owned());
        thread.spawn(run)?;
        Ok(Self {
            common: Common {
                process,
                writer,
                bounded: true,
                payloads: keep == Keep::Payloads,
                epoch,
                known: Arc::default(),
            },
            failure,
            ending: Mutex::new(Some(Ending::Thread(ended))),
        })
    }

    /// Keeps all records until it is asked for the tape.
    pub(crate) fn to_memory(process: NameId, keep: Keep) -> Self {
        let (writer, messages) = channel();
        Self {
            common: Common {
                process,
                writer,
                bounded: false,
                payloads: keep == Keep::Payloads,
                epoch: Arc::default(),
                known: Arc::default(),
            },
            failure: Arc::default(),
            ending: Mutex::new(Some(Ending::Memory(messages))),
        }
    }

    /// How far the recording is.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            process: self.common.process,
            epoch: self.common.epoch.load(Ordering::SeqCst),
        }
    }

    pub(crate) fn lane(&self, kind: LaneKind, name: &Name) -> Arc<LaneWriter> {
        LaneWriter::new(kind, name, self.common.clone())
    }

    pub(crate) fn finish(&self) -> io::Result<()> {
        let ending = lock(&self.ending).take();
        if let Some(Ending::Thread(ended)) = ending {
            let _ = self.common.writer.send(Message::End);
            // Nothing is ever sent: it hangs up.
            let _ = ended.recv();
        }
        match self.failure.get() {
            Some(failure) => Err(io::Error::other(failure.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn finish_with(&self, process: &Name) -> io::Result<Vec<u8>> {
        let ending = lock(&self.ending).take();
        let Some(Ending::Memory(messages)) = ending else {
            return Ok(Vec::new());
        };
        let mut tape = TapeWriter::new(Vec::new(), process)?;
        for message in messages.try_iter() {
            if let Message::Records(lane) = message {
                tape.drain(&lane)?;
            }
        }
        tape.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Path as Way;
    use crate::record::Member;

    /// A disk that is full after so many bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_ends_the_tape_and_nothing_else() {
        let name = Name::new("name").expect("it is a name");
        for room in [64, 1 << 20, 5 << 20] {
            let tape = TapeWriter::new(Full(room), &name).expect("there is room for the head");
            let recorder =
                Recorder::to_writer(tape, name.id(), Keep::Order).expect("a thread can be started");
            let lane = recorder.lane(LaneKind::Root, &name);
            let (place, path) = (0, Way::default());
            // Far more than the disk and the buffer take: a task that waits is let go.
            for number in 0..10_000 {
                assert!(lane.primitive(Member { place, path }, number, &name, &[0; 1000]));
            }
            recorder.finish().expect_err("the disk was full");
            assert!(recorder.failure.get().is_some());
            assert!(
                lane.primitive(Member { place, path }, 0, &name, &[]),
                "it is lost"
            );
        }
    }
}
