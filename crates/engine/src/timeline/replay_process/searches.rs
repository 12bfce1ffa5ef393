//! Orders to a replaying process that searches: for races, for orders of accesses, or for the turns of threads. Must
//! never judge the results.

use std::io;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::{ReplayProcess, unexpected};
use crate::failure::Result;
use crate::guide::framing::send;
use crate::guide::protocol::{Request, Response};
use crate::guide::races::{RaceHints, Races};
use crate::guide::trials::{Trial, TrialOrder};

/// The longest wait for one of several processes.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

impl ReplayProcess {
    /// Looks for races from here on.
    ///
    /// # Errors
    /// Divergence, or the process is gone.
    pub fn look_for_races(&mut self, hints: &RaceHints) -> Result<()> {
        match self.ask(&Request::LookForRaces(hints.clone()))? {
            Response::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Gives an order of a search for the turns of threads; [`ReplayProcess::trial_answer`] waits for the answer.
    ///
    /// # Errors
    /// The process is gone.
    pub fn order_trial(&mut self, order: &TrialOrder) -> Result<()> {
        let request = Request::Trial(order.clone());
        send(&mut self.socket, &request, &[]).map_err(|e| self.gone(&e))
    }

    /// How far the trial is.
    ///
    /// # Errors
    /// Any failure but a divergence, or the process is gone.
    pub fn trial_answer(&mut self) -> Result<Trial> {
        match self.answer()?.0 {
            Response::Trial(trial) => Ok(*trial),
            other => Err(unexpected(&other)),
        }
    }

    /// Waits until some of these answer, or for a while: which.
    ///
    /// # Errors
    /// The kernel's.
    pub fn which_answer(all: &[&Self]) -> io::Result<Vec<usize>> {
        let mut sockets: Vec<PollFd<'_>> = all
            .iter()
            .map(|host| PollFd::new(&host.socket, PollFlags::IN))
            .collect();
        match poll(&mut sockets, Some(&LOOK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let ready = sockets.iter().enumerate();
        let ready = ready.filter(|(_, socket)| !socket.revents().is_empty());
        Ok(ready.map(|(place, _)| place).collect())
    }

    /// Looks for orders of accesses from here on.
    ///
    /// # Errors
    /// Divergence, or the process is gone.
    pub fn look_for_orders(&mut self) -> Result<()> {
        match self.ask(&Request::LookForOrders)? {
            Response::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Goes on with that for a while.
    ///
    /// # Errors
    /// Divergence, or the process is gone.
    pub fn races(&mut self) -> Result<Races> {
        match self.ask(&Request::Races)? {
            Response::Races(races) => Ok(races),
            other => Err(unexpected(&other)),
        }
    }
}
