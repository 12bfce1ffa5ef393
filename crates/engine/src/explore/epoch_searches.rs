//! The processes that search the orders of epochs, each of one, several at the same time. Must never leave one behind: each dies with
//! this process.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::failure::{Failure, Result};
use crate::supervisor::dies_with_parent;

/// The answer of a process that has searched one epoch: how many attempts it took, or why its order was not found.
pub type EpochAnswer = Result<u32>;

/// What a wait for searches has brought.
pub(super) enum Waited {
    /// The search of this number is over: how many attempts it took, or why it has not found an order.
    Searched(usize, Result<u32>),
    /// The other descriptor can be read.
    Other,
    /// The time is over.
    Nothing,
}

/// The searches that run.
#[derive(Default)]
pub(super) struct EpochSearches(Vec<EpochSearch>);

impl EpochSearches {
    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Begins one more, by a command that answers with an [`EpochAnswer`] as a line of JSON.
    ///
    /// # Errors
    /// There is no process for it.
    pub fn begin(&mut self, number: usize, mut command: Command) -> Result<()> {
        let cannot = |e| Failure::setup(format!("cannot start a search: {e}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // Nobody would take its answer.
        dies_with_parent(&mut command);
        let child = command.spawn().map_err(cannot)?;
        self.0.push(EpochSearch { number, child });
        Ok(())
    }

    /// Waits until one is over, another descriptor can be read, or so much time has passed.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn wait(
        &mut self,
        other: Option<BorrowedFd<'_>>,
        limit: Option<Duration>,
    ) -> Result<Waited> {
        let limit = limit.map(Timespec::try_from).transpose();
        let limit = limit.map_err(Failure::internal)?;
        let outs = self
            .0
            .iter()
            .filter_map(|search| search.child.stdout.as_ref());
        let outs = outs.map(|out| PollFd::from_borrowed_fd(out.as_fd(), PollFlags::IN));
        let other = other.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = outs.chain(other).collect();
        match poll(&mut fds, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(Waited::Nothing),
            polled => polled.map_err(Failure::setup)?,
        };
        let ready = fds.iter().position(|fd| !fd.revents().is_empty());
        Ok(match ready {
            None => Waited::Nothing,
            Some(place) if place == self.0.len() => Waited::Other,
            Some(place) => {
                let search = self.0.swap_remove(place);
                Waited::Searched(search.number, search.answer())
            }
        })
    }
}

/// A search that runs.
struct EpochSearch {
    number: usize,
    child: Child,
}

impl EpochSearch {
    /// Its answer, which comes when it ends.
    fn answer(mut self) -> Result<u32> {
        let mut text = String::new();
        if let Some(out) = &mut self.child.stdout {
            out.read_to_string(&mut text).map_err(Failure::setup)?;
        }
        let status = self.child.wait().map_err(Failure::setup)?;
        match serde_json::from_str::<EpochAnswer>(&text) {
            Ok(answer) => answer,
            Err(_) => Err(Failure::setup(format!(
                "the search for its order ended: {status}"
            ))),
        }
    }
}
