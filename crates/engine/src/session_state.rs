//! The state of a recorded process at a position between two events, without the content of its memory:
//! the plain data of a session image. It is made of the descriptions of tasks, process and memory. A state
//! that is read may come from a stranger: it must be checked before anything is made of it.

use std::collections::{BTreeMap, BTreeSet};

use relive_host::cpu;
use relive_host::layout::FS_END;
use relive_trace::{BeginProcess, ImageReader, ImageSet, TapeId, TapeMark, Trace};
use serde::{Deserialize, Serialize};

use crate::encoding;
use crate::failure::Failure;
use crate::guide::point::Point;
use crate::memory::plain_memory::MemoryState;
use crate::process::state::ProcessState;
use crate::seccomp::bpf;
use crate::seccomp::filter::{Confined, Filters};
use crate::tape::TapeState;
use crate::task::plain_task::{TaskState, ThreadRegisters};
use crate::trap_flag::TF;

/// The form of this state. It changes with every change of a field, here or in a description: images
/// of other forms are of no use.
pub const LAYOUT: u32 = 3;

/// The state of a recorded process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionState {
    /// The process.
    pub process: ProcessState,
    /// Its threads; the first is the one whose turn it is.
    pub threads: Vec<ThreadState>,
    /// Its memory, without content.
    pub memory: MemoryState,
    /// The files that are mapped shared: identity, and where their content ends.
    pub shared_files: Vec<(u64, u64)>,
    /// The turn at hand, counted on the schedule tape.
    pub turn: u32,
    /// The position on that tape, if there is one.
    pub schedule: Option<TapeMark>,
    /// The progress of the replay up to here.
    pub replayed: ReplayedState,
    /// Sum over memory and registers of all threads.
    pub sum: u64,
}

/// A thread, and where it stands on its tape; one that has none was ended before its first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadState {
    /// The thread.
    pub task: TaskState,
    /// Its position.
    pub tape: Option<TapeState>,
}

/// The past of a replay, as its later part needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayedState {
    /// Events of the process, and of those that it comes from.
    pub events: u64,
    /// Turns.
    pub turns: u64,
    /// Children of the process: kernel id and index.
    pub children: BTreeMap<u32, u32>,
    /// A file has been mapped shared.
    pub maps_shared: bool,
    /// The way.
    pub track: TrackState,
}

/// The way that a guided replay has gone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrackState {
    /// See `Past`.
    pub base: u64,
    /// See `Past`.
    pub began: Option<Point>,
    /// Where each thread last gave its turn away.
    pub left: BTreeMap<u32, Point>,
    /// See `ReplayStatus::work`.
    pub work: u64,
    /// The program that runs, and where its first stack began.
    #[serde(with = "serde_bytes")]
    pub program: Vec<u8>,
    /// See there.
    pub stack: u64,
}

/// Why a session image gives no process.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The image cannot be used, for this reason.
    #[error("{0}")]
    Image(String),
    /// Something else failed.
    #[error("{0}")]
    Failed(#[from] Failure),
}

impl Refused {
    /// The image is damaged: how.
    pub fn damaged(what: &str) -> Self {
        Self::Image(format!("a session image is damaged: {what}"))
    }

    /// The image has another layout.
    pub fn layout(other: u32) -> Self {
        Self::Image(format!(
            "a session image has the layout {other}, and this version of Relive reads {LAYOUT}"
        ))
    }

    /// The failure of a replay that was to begin with an image of this set.
    #[must_use]
    pub fn failure(self, set: ImageSet) -> Failure {
        match (self, set) {
            (Self::Failed(failure), _) => failure,
            (Self::Image(why), ImageSet::Index) => Failure::setup(format!(
                "{why}. That is of its index: `relive index` makes it anew, `relive index --remove` removes it"
            )),
            (Self::Image(why), ImageSet::Epochs) => Failure::setup(format!(
                "{why}. It is between two epochs: remove the folder `epochs` of the recording, and replay it as a whole"
            )),
            (Self::Image(why), ImageSet::Begin) => Failure::setup(format!(
                "{why}. This recording begins with that image: copy it again, or split it anew"
            )),
        }
    }
}

impl From<relive_trace::Error> for Refused {
    fn from(error: relive_trace::Error) -> Self {
        Self::Image(error.to_string())
    }
}

/// A process of an image, or why there is none.
pub type ImageResult<T> = Result<T, Refused>;

fn damaged(what: &str) -> Refused {
    Refused::damaged(what)
}

impl SessionState {
    /// Where its threads stand on their tapes, and the process on its schedule, in the order of tapes.
    #[must_use]
    pub fn marks(&self) -> BTreeMap<TapeId, TapeMark> {
        let process = self.process.index;
        let of = |t: &ThreadState| {
            let tape = t.tape.as_ref()?;
            Some((TapeId::new(process, t.task.index), tape.mark))
        };
        let schedule = self.schedule.map(|mark| (TapeId::schedule(process), mark));
        self.threads.iter().filter_map(of).chain(schedule).collect()
    }

    /// A thread or a schedule that has not logged anything in this recording has no tape.
    pub fn settle(&mut self, trace: &Trace) {
        let has = |id: TapeId| trace.tapes().iter().any(|tape| tape.id == id);
        let process = self.process.index;
        if !has(TapeId::schedule(process)) {
            self.schedule = None;
        }
        for thread in &mut self.threads {
            if !has(TapeId::new(process, thread.task.index)) {
                thread.tape = None;
            }
        }
    }

    /// The beginning of an excerpt with this process.
    #[must_use]
    pub fn begins(&self) -> BeginProcess {
        BeginProcess {
            process: self.process.index,
            work: self.replayed.track.work,
            event: self.replayed.events,
            threads: self.process.next_thread,
        }
    }

    /// From an image, whatever recording it is of.
    ///
    /// # Errors
    /// It has another layout, or as [`Self::decode`].
    pub fn of(image: &ImageReader) -> ImageResult<Self> {
        match image.head().layout {
            LAYOUT => Self::decode(image.state()),
            other => Err(Refused::layout(other)),
        }
    }

    /// From the bytes of an image.
    ///
    /// # Errors
    /// They are of another form, or describe a process that could not be.
    pub fn decode(bytes: &[u8]) -> ImageResult<Self> {
        let state: Self = encoding::from_bytes(bytes).map_err(|e| damaged(&e.to_string()))?;
        state.check()?;
        Ok(state)
    }

    /// Whether a process could be in this state, as far as the host relies on it. (The memory map is
    /// checked where it is made.)
    ///
    /// # Errors
    /// It could not.
    pub fn check(&self) -> ImageResult<()> {
        if self.threads.is_empty() {
            return Err(damaged("a process without threads"));
        }
        let slots: BTreeSet<u32> = self.threads.iter().map(|t| t.task.slot).collect();
        if slots.len() != self.threads.len() {
            return Err(damaged("two threads in one place"));
        }
        if self.process.state.retained_fds.is_some() {
            return Err(damaged("a replay keeps no descriptors"));
        }
        let mut filters = self.process.state.filter.iter().collect::<Vec<_>>();
        for thread in &self.threads {
            check_registers(&thread.task.registers)?;
            if let Some(Confined::Filter(filter)) = &thread.task.seccomp {
                filters.push(filter);
            }
        }
        let good = |filter: &Filters| filter.iter().all(|f| bpf::check(&f.program.insns));
        match filters.into_iter().all(good) {
            true => Ok(()),
            false => Err(damaged("a filter of calls that no kernel takes")),
        }
    }
}

/// Whether the processor takes these registers: others would fault where the host loads them.
fn check_registers(registers: &ThreadRegisters) -> ImageResult<()> {
    let area = &registers.extended;
    let components = cpu::xcr0() & cpu::XSAVE_MASK;
    let mxcsr = u32::from_le_bytes(area.0[24..28].try_into().unwrap_or_default());
    let faults = [
        (
            area.xstate_bv() & !components != 0,
            "registers that this processor lacks",
        ),
        // XCOMP_BV and the reserved bytes of the header behind it.
        (
            area.0[520..576].iter().any(|byte| *byte != 0),
            "registers in another form",
        ),
        (mxcsr & !cpu::mxcsr_mask() != 0, "an impossible MXCSR"),
        (registers.rflags & TF != 0, "the processor's own trap flag"),
        (
            registers.fs >= FS_END || registers.gs >= FS_END,
            "an impossible base of a segment",
        ),
        (!registers.segments.can_be_loaded(), "an impossible segment"),
    ];
    match faults.into_iter().find(|(fault, _)| *fault) {
        Some((_, what)) => Err(damaged(what)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state() -> SessionState {
        let task = TaskState::new(0, 77);
        SessionState {
            process: ProcessState::new(0, 77),
            threads: vec![ThreadState { task, tape: None }],
            memory: crate::testing::machine().memory().capture(),
            shared_files: vec![(5, 4096)],
            turn: 3,
            schedule: Some(TapeMark::default()),
            replayed: ReplayedState {
                events: 9,
                turns: 3,
                children: BTreeMap::from([(80, 1)]),
                maps_shared: true,
                track: TrackState::default(),
            },
            sum: 1 << 60,
        }
    }

    fn refused(change: impl FnOnce(&mut SessionState)) -> String {
        let mut state = state();
        change(&mut state);
        let bytes = encoding::to_bytes(&state);
        SessionState::decode(&bytes)
            .expect_err("it could not be")
            .to_string()
    }

    #[test]
    fn a_state_comes_back() {
        let bytes = encoding::to_bytes(&state());
        assert!(SessionState::decode(&bytes).is_ok_and(|again| again == state()));
    }

    #[test]
    fn registers_that_fault_when_they_are_loaded_are_refused() {
        let first = |state: &mut SessionState| state.threads[0].task.registers.clone();
        let with = |registers| refused(|state| state.threads[0].task.registers = registers);
        let good = first(&mut state());
        for change in [
            |r: &mut ThreadRegisters| r.rflags |= TF,
            |r: &mut ThreadRegisters| r.fs = 1 << 47,
            |r: &mut ThreadRegisters| r.gs = u64::MAX,
            |r: &mut ThreadRegisters| r.extended.0[26] = 1,
            |r: &mut ThreadRegisters| r.extended.0[520] = 1,
            |r: &mut ThreadRegisters| r.extended.set_xstate_bv(1 << 62),
        ] {
            let mut registers = good.clone();
            change(&mut registers);
            assert!(with(registers).contains("damaged"));
        }
    }

    #[test]
    fn a_process_that_could_not_be_is_refused() {
        assert!(refused(|s| s.threads.clear()).contains("without threads"));
        let twice = refused(|s| s.threads.push(s.threads[0].clone()));
        assert!(twice.contains("one place"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_a_state(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = encoding::to_bytes(&state());
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = SessionState::decode(&bytes);
            prop_assert!(SessionState::decode(&bytes[..cut.index(bytes.len())]).is_err());
        }
    }
}
