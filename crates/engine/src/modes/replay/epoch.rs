//! An epoch of a recording whose threads ran at the same time: the stretch between two of its session images, or between one and
//! an end of the recording. A replay of an epoch begins with the image before it and ends where each thread stands in
//! the one behind it; it is right when the process is then as that image says, which is all that the epochs behind it depend on
//! (DoublePlay: Veeraraghavan and others, ASPLOS 2011, section 3.2). Must never end well without that.

use relive_trace::{ImageReader, ImageSet, Trace};

use super::checksum;
use super::hook_state::with;
use crate::difference::differs;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::session_state::{ImageResult, Refused, SessionState};
use crate::task::Task;
use crate::task::plain_task::TaskState;

/// Tells a replay its epoch, in the environment of its first host process.
pub const VARIABLE: &str = "RELIVE_EPOCH";

/// An epoch of the first process, by the images around it, which are named by their work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// The one with which it begins; `None`: it begins with the program.
    pub begin: Option<u64>,
    /// The one to which it leads; `None`: it ends with the recording.
    pub end: Option<u64>,
}

impl Epoch {
    /// The epoch that the environment asks for: all of the recording, if it asks for none.
    ///
    /// # Errors
    /// It asks for something else.
    pub fn requested() -> Result<Self> {
        let Ok(text) = std::env::var(VARIABLE) else {
            return Ok(Self::default());
        };
        Self::from_text(&text)
            .ok_or_else(|| Failure::setup(format!("{VARIABLE} names no epoch: {text}")))
    }

    /// The variable's value.
    #[must_use]
    pub fn to_text(self) -> String {
        let name = |work: Option<u64>| work.map_or("-".to_owned(), |work| work.to_string());
        format!("{} {}", name(self.begin), name(self.end))
    }

    fn from_text(text: &str) -> Option<Self> {
        let (begin, end) = text.split_once(' ')?;
        let work = |name: &str| match name {
            "-" => Some(None),
            name => name.parse().ok().map(Some),
        };
        Some(Self {
            begin: work(begin)?,
            end: work(end)?,
        })
    }
}

/// The end of the epoch of this replay.
pub struct EpochEnd {
    /// The process as the image says.
    pub state: SessionState,
    image: ImageReader,
}

impl EpochEnd {
    /// Opens the image, before the replay confines itself.
    ///
    /// # Errors
    /// There is none, or it is damaged or of another recording.
    pub fn open(trace: &Trace, work: u64) -> Result<Self> {
        let opened = || -> ImageResult<Self> {
            let image = ImageReader::open(trace.directory(), ImageSet::Epochs, 0, work)?;
            if image.head().tapes != trace.sum() {
                return Err(Refused::Image(
                    "a session image is of another recording".to_owned(),
                ));
            }
            let state = SessionState::of(&image)?;
            Ok(Self { state, image })
        };
        opened().map_err(|refused| refused.failure(ImageSet::Epochs))
    }

    /// Compares the image with the replay, all of whose threads stand at their places.
    ///
    /// # Errors
    /// They differ: both sides.
    fn compare(&mut self, machine: &Machine, tasks: &[&Task]) -> Result<()> {
        let sum = checksum::process(machine, tasks.iter().copied())?;
        let found = self.state_difference(machine, tasks);
        if found.is_none() && sum == self.state.sum {
            return Ok(());
        }
        let page = match sum == self.state.sum {
            true => String::new(),
            false => self.other_page(machine)?,
        };
        Err(Failure::divergence(format!(
            "the epoch that ends at event {} of the process ends otherwise{}{page}",
            self.state.replayed.events,
            found.map_or(String::new(), |found| format!(": {found}")),
        )))
    }

    /// The first field that differs.
    fn state_difference(&self, machine: &Machine, tasks: &[&Task]) -> Option<String> {
        let image = &self.state;
        let mut wanted: Vec<u32> = image.threads.iter().map(|t| t.task.index).collect();
        let mut there: Vec<u32> = tasks.iter().map(|task| task.index).collect();
        wanted.sort_unstable();
        there.sort_unstable();
        if let Some(found) = differs("threads", &wanted, &there) {
            return Some(found);
        }
        for thread in &image.threads {
            let task = tasks.iter().find(|t| t.index == thread.task.index)?;
            let mut now = task.capture();
            task.settle_flags(&mut now);
            // How far it is behind a tick the recorder did not always know.
            let wanted = TaskState {
                steps: now.steps,
                exact: now.exact,
                parked: now.parked,
                ..thread.task.clone()
            };
            let order = thread
                .tape
                .as_ref()
                .map_or((0, 0), |tape| (tape.order.ops, tape.order.marks));
            let orders = (task.ctx.ops, task.ctx.marks);
            let found = differs("thread", &wanted, &now).or_else(|| {
                differs(
                    "operations and marks of a thread",
                    &(task.index, order),
                    &(task.index, orders),
                )
            });
            if found.is_some() {
                return found;
            }
        }
        let process = tasks.first()?.process.capture();
        let (mut wanted, mut memory) = (image.memory.clone(), machine.memory().capture());
        // Nobody else has memory in common with it that has no file.
        for state in [&mut wanted, &mut memory] {
            state.keep_unnamed_private();
        }
        differs(
            "process",
            &image.process.without_unrecorded(),
            &process.without_unrecorded(),
        )
        .or_else(|| differs("memory", &wanted.without_hints(), &memory.without_hints()))
    }

    /// The first page of the image that has another content in the replay.
    fn other_page(&mut self, machine: &Machine) -> Result<String> {
        let memory = machine.memory();
        let found = self.image.first_other(|at, page| {
            memory
                .content(at, at + page.len() as u64)
                .is_ok_and(|there| there == page)
        });
        Ok(match found.map_err(Failure::setup)? {
            Some(at) => format!("\n  memory differs in the page at {at:#x}"),
            None => "\n  memory or registers differ in what the image does not have".to_owned(),
        })
    }
}

/// Ends a replay all of whose threads stand at the end of their epoch; these are all that there are.
///
/// # Errors
/// The process is not as the image says.
pub fn end<'a>(machine: &Machine, tasks: impl Iterator<Item = &'a Task>) -> Result<()> {
    let end = with(|s| s.epoch_end.take());
    let mut end = end.ok_or_else(|| Failure::internal("an epoch ends once"))?;
    end.compare(machine, &tasks.collect::<Vec<_>>())
}

/// Checks that the process may end: not before its epoch does.
///
/// # Errors
/// The epoch has not ended.
pub fn check_ended() -> Result<()> {
    match with(|s| s.epoch_end.is_some()) {
        false => Ok(()),
        true => Err(Failure::divergence(
            "the process ends before the end of the epoch, at which it went on in the recording",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_told_in_words() {
        for (begin, end) in [(None, None), (Some(7), None), (None, Some(u64::MAX))] {
            let epoch = Epoch { begin, end };
            assert_eq!(Epoch::from_text(&epoch.to_text()), Some(epoch));
        }
        for text in ["", "7", "7 8 9", "a -", "- 18446744073709551616"] {
            assert_eq!(Epoch::from_text(text), None, "{text}");
        }
    }
}
