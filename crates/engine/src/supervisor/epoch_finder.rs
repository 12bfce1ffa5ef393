//! The process that finds the orders of epochs while their recording runs, as its recorder sees it: is told of each session image, tells
//! how far it is, and goes on when the program has ended. Must never hold the recorder up, nor end its recording: without it
//! the recording is a sketch with images.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::children::{dies_with_parent, leaves_group_signals};
use super::forwarding;
use crate::failure::{Failure, Result};

/// How the epochs of a recording are found while it runs, or those of what a flight recording keeps.
#[derive(Clone, Copy, Debug)]
pub struct EpochPlan {
    /// The command that finds those of the recording in a folder, so many at a time. Its standard input is the recorder's stream.
    pub finder: fn(&Path, usize) -> Command,
    /// How many at a time.
    pub jobs: usize,
    /// When so many epochs could be searched that are not, the program waits.
    pub most: u32,
    /// What the program writes to the outside waits until its epoch and all before are found.
    pub commits: bool,
}

/// News of the finder, a line of JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FinderNews {
    /// Epochs that are searched, or could be.
    pub ready: u32,
    /// Those that are found.
    pub found: u32,
    /// Those whose first attempt has not led to their end: threads race there.
    pub disagreed: u32,
    /// The work up to the end of the last epoch that is found, as all before it are.
    pub committed: u64,
    /// Why an epoch is not found, or none are.
    pub failed: Option<Failure>,
    /// It has ended.
    pub end: Option<FinderEnd>,
}

/// How a finder has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FinderEnd {
    /// Epochs of the recording.
    pub epochs: usize,
    /// Attempts that it took.
    pub attempts: u32,
    /// Epochs that took more than one.
    pub searched: usize,
    /// Epochs that were found while the program ran.
    pub meanwhile: u32,
    /// How long it took to put the found ones together.
    pub joining: Duration,
    /// Epochs that are not found: the recording is exact behind the last of them.
    pub missing: usize,
    /// Why the order is not found, of those or of all, if it is not.
    pub failed: Option<Failure>,
}

/// The finder of a recording.
#[derive(Debug)]
pub struct EpochFinder {
    child: Child,
    stream: UnixStream,
    /// What is still to be told it.
    untold: Vec<u8>,
    /// A part of a line.
    rest: Vec<u8>,
    news: FinderNews,
    most: u32,
    is_gone: bool,
}

impl EpochFinder {
    /// Starts it.
    ///
    /// # Errors
    /// There is no process for it.
    pub fn begin(plan: &EpochPlan, trace: &Path) -> Result<Self> {
        let cannot = |e| {
            Failure::setup(format!(
                "cannot start the search for the order of threads: {e}"
            ))
        };
        let (stream, other) = UnixStream::pair().map_err(cannot)?;
        stream.set_nonblocking(true).map_err(cannot)?;
        let mut command = (plan.finder)(trace, plan.jobs);
        command.stdin(OwnedFd::from(other)).stdout(Stdio::null());
        dies_with_parent(&mut command);
        leaves_group_signals(&mut command);
        Ok(Self {
            child: command.spawn().map_err(cannot)?,
            stream,
            untold: Vec::new(),
            rest: Vec::new(),
            news: FinderNews::default(),
            most: plan.most,
            is_gone: false,
        })
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// It has ended, and been waited for.
    pub fn is_gone(&mut self) {
        self.take_news();
        self.is_gone = true;
        self.news.ready = 0;
    }

    /// Whether nothing more is to be expected of it.
    pub fn has_ended(&self) -> bool {
        self.is_gone || self.news.end.is_some()
    }

    /// The recording is whole: it goes on by itself.
    pub fn no_more_images(&self) {
        // It may be gone.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Tells it of the session image of this work.
    pub fn image_made(&mut self, work: u64) {
        self.untold.extend_from_slice(&work.to_le_bytes());
    }

    /// Tells it what is to be told, and takes its news. Whether the program is to wait for it.
    pub fn tick(&mut self) -> bool {
        self.tell();
        self.take_news();
        self.news.ready >= self.most
    }

    /// How many epochs had more than one attempt.
    pub fn disagreed(&self) -> u32 {
        self.news.disagreed
    }

    /// Up to where the order of the recording is found, by its work.
    ///
    /// # Errors
    /// It is not found any further, ever.
    pub fn committed(&self) -> Result<u64> {
        match (&self.news.failed, self.is_gone) {
            (Some(failure), _) => Err(failure.clone()),
            (None, true) => Err(Failure::setup("the process that searches it has ended")),
            (None, false) => Ok(self.news.committed),
        }
    }

    fn tell(&mut self) {
        while !self.untold.is_empty() {
            match self.stream.write(&self.untold) {
                Ok(written) => drop(self.untold.drain(..written)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Whether more may come.
    fn take_news(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let goes_on = loop {
            match self.stream.read(&mut bytes) {
                Ok(read @ 1..) => self.rest.extend_from_slice(&bytes[..read]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => break e.kind() == ErrorKind::WouldBlock,
                Ok(0) => break false,
            }
        };
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if let Ok(news) = serde_json::from_slice(&line) {
                self.news = news;
            }
        }
        goes_on
    }

    /// No further image comes, and the recording is whole: waits until the order of all epochs is found, or is not. A signal that
    /// would end the recorder, or one of the keyboard, ends the search. `waits` is called when that takes a second.
    #[must_use]
    pub fn finish(self, waits: &mut dyn FnMut()) -> FinderEnd {
        const LONG: Duration = Duration::from_secs(1);
        forwarding::end_by_keyboard();
        let (start, mut told) = (Instant::now(), false);
        self.wait(&mut || {
            if !told && start.elapsed() >= LONG {
                told = true;
                waits();
            }
            forwarding::asks_to_end()
        })
    }

    /// How one has ended that has said so, or is gone, while its recorder goes on.
    #[must_use]
    pub fn reap(self) -> FinderEnd {
        self.wait(&mut || false)
    }

    /// Waits for its end, or ends it when that is asked for.
    fn wait(mut self, is_asked: &mut dyn FnMut() -> bool) -> FinderEnd {
        let status = self.end(is_asked);
        let none = |what: String| {
            Failure::setup(format!("the process that searches it has ended: {what}"))
        };
        match (self.news.end.take(), status) {
            (Some(end), _) => end,
            (None, Ok(Some(status))) => FinderEnd::failed(none(status)),
            (None, Ok(None)) => FinderEnd::failed(Failure::setup("a signal has ended the search")),
            (None, Err(error)) => FinderEnd::failed(none(error.to_string())),
        }
    }

    /// How it has ended. `None`: as that was asked for.
    fn end(&mut self, is_asked: &mut dyn FnMut() -> bool) -> std::io::Result<Option<String>> {
        const LOOK: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        self.tell();
        while self.take_news() {
            if is_asked() {
                self.child.kill()?;
                self.child.wait()?;
                return Ok(None);
            }
            let mut flags = PollFlags::IN;
            match self.untold.is_empty() {
                true => self.no_more_images(),
                false => flags |= PollFlags::OUT,
            }
            // Interrupted, it looks.
            let _ = poll(&mut [PollFd::new(&self.stream, flags)], Some(&LOOK));
            self.tell();
        }
        match self.is_gone {
            true => Ok(Some("too early".to_owned())),
            false => Ok(Some(self.child.wait()?.to_string())),
        }
    }
}

impl FinderEnd {
    /// Of a search that has failed.
    #[must_use]
    pub fn failed(failure: Failure) -> Self {
        Self {
            epochs: 0,
            attempts: 0,
            searched: 0,
            meanwhile: 0,
            joining: Duration::ZERO,
            missing: 0,
            failed: Some(failure),
        }
    }
}
