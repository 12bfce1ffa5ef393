//! The exact tapes of epochs, put together to those of the recording: one behind the other, with the numbers by which a replay of them names
//! its position where each epoch ends. Must never change an event.

use std::collections::BTreeMap;
use std::path::Path;

use relive_trace::{
    Encoder, Event, Kind, Manifest, Summary, TapeId, TapeMark, TapeReader, Trace, TraceWriter,
};

use crate::elapsed::Elapsed;
use crate::failure::{Failure, Result};
use crate::guide::point::{Point, Steps};
use crate::session_state::{ReplayedState, SessionState, ThreadState, TrackState};
use crate::tape::TapeState;
use crate::task::plain_task::TaskState;

/// The tapes of a recording of one process, as they come together.
pub struct JoinedTapes {
    writer: TraceWriter,
    tapes: BTreeMap<TapeId, JoinedTape>,
    /// Entries of all tapes.
    entries: u64,
    /// Events and turns, as a replay counts them.
    events: u64,
    turns: u64,
    /// Programs that the process has run.
    programs: u64,
    /// The thread whose turn it is, by its slot.
    turn_of: u32,
    /// Where each thread last gave its turn away, by its slot.
    left: BTreeMap<u32, Point>,
}

/// One of them.
#[derive(Default)]
struct JoinedTape {
    encoder: Encoder,
    mark: TapeMark,
}

/// A tape of the epoch that is added.
struct EpochTape {
    reader: TapeReader,
    /// Its thread has given its turn away in the call that comes next.
    parked: bool,
}

impl JoinedTapes {
    /// Begins, in an empty folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(manifest: &Manifest, folder: &Path) -> Result<Self> {
        let manifest = manifest.clone().begun();
        Ok(Self {
            writer: TraceWriter::create(folder, &manifest).map_err(Failure::setup)?,
            tapes: BTreeMap::new(),
            entries: 0,
            events: 0,
            turns: 0,
            programs: 0,
            turn_of: 0,
            left: BTreeMap::new(),
        })
    }

    /// The same of a recording that begins with an image in this state.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin_with(manifest: &Manifest, folder: &Path, state: &SessionState) -> Result<Self> {
        Ok(Self {
            events: state.replayed.events,
            turns: state.replayed.turns,
            turn_of: state.threads.first().map_or(0, |first| first.task.slot),
            ..Self::begin(manifest, folder)?
        })
    }

    /// Adds the tapes of the next epoch.
    ///
    /// # Errors
    /// They are damaged, or it cannot be written.
    pub fn add(&mut self, epoch: &Trace) -> Result<()> {
        let mut tapes = BTreeMap::new();
        for tape in epoch.tapes() {
            let reader = epoch.tape(tape.id).map_err(Failure::setup)?;
            let parked = false;
            tapes.insert(tape.id, EpochTape { reader, parked });
        }
        self.turn(&mut tapes)?;
        if let Some(EpochTape { mut reader, .. }) = tapes.remove(&TapeId::schedule(0)) {
            while let Some(event) = reader.next().map_err(Failure::setup)? {
                let Kind::Turn { thread } = event.kind else {
                    return Err(damaged("a schedule with more than turns"));
                };
                self.begins(thread)?;
                self.turn(&mut tapes)?;
            }
        }
        // Nothing of it may be lost.
        let left = tapes
            .values_mut()
            .map(|tape| tape.reader.peek().map(|next| next.is_some()));
        match left.collect::<relive_trace::Result<Vec<_>>>() {
            Ok(left) if !left.contains(&true) => Ok(()),
            Ok(_) => Err(damaged("events without a turn")),
            Err(error) => Err(Failure::setup(error)),
        }
    }

    /// A turn of the thread of this slot begins: of the one whose turn it is where an epoch begins it is not on the tapes of that.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begins(&mut self, thread: u32) -> Result<()> {
        self.turns += 1;
        self.turn_of = thread;
        self.put(
            TapeId::schedule(0),
            &Event {
                ticks: 0,
                digest: 0,
                kind: Kind::Turn { thread },
            },
        )
    }

    /// Adds what a thread does in its turn.
    fn turn(&mut self, tapes: &mut BTreeMap<TapeId, EpochTape>) -> Result<()> {
        let slot = self.turn_of;
        let id = TapeId::new(0, slot);
        let Some(tape) = tapes.get_mut(&id) else {
            return Ok(());
        };
        while let Some(event) = tape.reader.peek().map_err(Failure::setup)? {
            let before = Point {
                event: self.events,
                turn: self.turns,
                ticks: event.ticks,
                steps: Steps::Event,
            };
            match event.kind {
                Kind::Syscall(call) if call.switched && !tape.parked => {
                    tape.parked = true;
                    self.left.insert(slot, before);
                    return Ok(());
                }
                Kind::Readings { full: false, .. } => {}
                Kind::Exec(_) => {
                    self.events += 1;
                    self.programs += 1;
                }
                _ => self.events += 1,
            }
            tape.parked = false;
            self.put(id, &event)?;
            let over = match event.kind {
                Kind::Switch { steps } => {
                    let steps = Steps::Exact(steps.into());
                    self.left.insert(slot, Point { steps, ..before });
                    true
                }
                Kind::End { .. } => true,
                _ => false,
            };
            tape.reader.skip().map_err(Failure::setup)?;
            if over {
                return Ok(());
            }
        }
        Ok(())
    }

    fn put(&mut self, tape: TapeId, event: &Event<'_>) -> Result<()> {
        let mut bytes = Vec::new();
        let joined = self.tapes.entry(tape).or_default();
        joined.encoder.encode(event, &mut bytes);
        joined.mark = TapeMark {
            offset: joined.mark.offset + bytes.len() as u64,
            event: joined.mark.event + 1,
            ticks: event.ticks,
        };
        self.entries += 1;
        self.writer.append(tape, &bytes).map_err(Failure::setup)
    }

    /// The state in the image at the end of the epoch that was added last, as a replay of the exact tapes has it there, where the next
    /// epoch's first turn has begun.
    #[must_use]
    pub fn state(&self, image: SessionState) -> SessionState {
        let mark = |id: TapeId| self.tapes.get(&id).map(|tape| tape.mark);
        let process = image.process.index;
        let threads = image.threads.into_iter().map(|thread| ThreadState {
            tape: mark(TapeId::new(process, thread.task.index)).map(TapeState::at),
            task: behind_switch(thread.task),
        });
        let threads: Vec<ThreadState> = threads.collect();
        let ticks = self.tapes.values().map(|tape| tape.mark.ticks).sum();
        let elapsed = Elapsed {
            events: self.events,
            ticks,
            turns: self.turns,
        };
        let there = |slot: &u32| threads.iter().any(|thread| thread.task.slot == *slot);
        let left = self.left.iter().filter(|(slot, _)| there(slot));
        let track = TrackState {
            base: threads.first().map_or(0, |first| first.task.ticks),
            began: None,
            left: left.map(|(slot, point)| (*slot, *point)).collect(),
            work: elapsed.work(),
            ..image.replayed.track
        };
        SessionState {
            // On the schedule each further program counts for one.
            turn: (elapsed.turns + self.programs.saturating_sub(1)) as u32,
            schedule: mark(TapeId::schedule(process)),
            replayed: ReplayedState {
                events: elapsed.events,
                turns: elapsed.turns,
                track,
                ..image.replayed
            },
            threads,
            ..image
        }
    }

    /// Nothing follows.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self, like: Option<&Summary>) -> Result<()> {
        let summary = like.map(|like| Summary {
            events: self.entries,
            ..like.clone()
        });
        let finished = self.writer.finish(summary.as_ref());
        finished.map(drop).map_err(Failure::setup)
    }
}

/// A thread that has come to its place by a switch: steps are counted from there.
fn behind_switch(task: TaskState) -> TaskState {
    TaskState {
        steps: 0,
        exact: true,
        parked: false,
        ..task
    }
}

/// The state in an image between epochs, as tapes of their own begin with it: each thread comes there by a switch, as it does where the
/// tapes of epochs are put together.
#[must_use]
pub fn at_own_tapes(image: SessionState) -> SessionState {
    let threads = image.threads.into_iter().map(|thread| ThreadState {
        tape: Some(TapeState::at(TapeMark::default())),
        task: behind_switch(thread.task),
    });
    SessionState {
        threads: threads.collect(),
        schedule: Some(TapeMark::default()),
        ..image
    }
}

fn damaged(what: &str) -> Failure {
    Failure::internal(format!("the exact tapes of an epoch have {what}"))
}
