//! The supervisor's side: a thread that answers a replay's requests. The module's head bounds the
//! files that it may open.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use relive_host::signal::{Mask, set_mask};
use relive_trace::FileId;
use rustix::fs::{Mode, OFlags};
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::copies::{Copies, CopyRefusal};
use super::socket;
use super::wire::{BrokerOutcome, BrokerRequest, REQUEST, Sum, VARIABLE, encode_answer};
use crate::failure::{Failure, Result};
use crate::messages::MOST;
use crate::own_descriptors::{above_streams, outlive_exec};
use crate::translations::served::Served;

/// The thread needs little: files are read into the heap.
const STACK: usize = 256 << 10;
/// More checksums than this are not kept: half a gigabyte of them.
const MOST_SUMS: usize = 1 << 24;

/// The reports of a replay.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Checksums of each process, in its order.
    pub sums: BTreeMap<u32, Vec<Sum>>,
    kept: usize,
    refused: bool,
}

impl Gathered {
    fn keep(&mut self, sum: Sum) {
        if self.kept == MOST_SUMS {
            self.refused = true;
            return;
        }
        self.kept += 1;
        self.sums.entry(sum.process).or_default().push(sum);
    }
}

/// Identifies the replay's processes: each has the replay's end of the socket, at the number that
/// it was started with. No other process can have it.
#[derive(Clone)]
pub struct Members {
    number: i32,
    link: String,
}

impl Members {
    fn of(end: &OwnedFd) -> std::io::Result<Self> {
        let number = end.as_raw_fd();
        let inode = File::from(end.try_clone()?).metadata()?.ino();
        Ok(Self {
            number,
            link: format!("socket:[{inode}]"),
        })
    }

    /// The folder of a process under `/proc`, if it is a member. It never becomes another one's,
    /// even if the number is given to another process.
    fn folder(&self, pid: Pid) -> Option<OwnedFd> {
        let path = format!("/proc/{}", pid.as_raw_nonzero());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let name = format!("fd/{}", self.number);
        let link = rustix::fs::readlinkat(&folder, name, Vec::new()).ok()?;
        (link.to_bytes() == self.link.as_bytes()).then_some(folder)
    }

    /// Kills a process if it is a member: a replay that was taken over may name any.
    pub fn kill(&self, pid: u32) {
        let number = i32::try_from(pid).unwrap_or(0);
        let Some(pid) = Pid::from_raw(number) else {
            return;
        };
        // A descriptor of a process never becomes another one's, which is why it is made before the
        // look. Where containers forbid it the number must do.
        let process = pidfd_open(pid, PidfdFlags::empty());
        if self.folder(pid).is_none() {
            return;
        }
        // It may have ended meanwhile.
        let _ = match process {
            Ok(process) => pidfd_send_signal(process, Signal::KILL),
            Err(_) => kill_process(pid, Signal::KILL),
        };
    }
}

/// The server of one replay. Dropping it ends it.
pub struct Broker {
    ours: Arc<OwnedFd>,
    theirs: Option<OwnedFd>,
    members: Members,
    thread: Option<JoinHandle<Gathered>>,
}

impl Broker {
    /// A socket for a replay that is about to be started.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn new() -> Result<Self> {
        let made = || {
            let (ours, theirs) = socket::pair()?;
            // Replays have their streams at the numbers below.
            let theirs = above_streams(&theirs)?;
            // The host process must find its end open after exec.
            outlive_exec(&theirs)?;
            Ok((ours, Members::of(&theirs)?, theirs))
        };
        let (ours, members, theirs) = made().map_err(no_server)?;
        Ok(Self {
            ours: Arc::new(ours),
            theirs: Some(theirs),
            members,
            thread: None,
        })
    }

    /// The variable in the replay's environment that names its end of the socket.
    #[must_use]
    pub fn variable(&self) -> (&'static str, String) {
        (VARIABLE, self.members.number.to_string())
    }

    /// Identifies the replay's processes.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Begins to serve the replay of a trace, once its first process has been started.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn serve(&mut self, trace: &Path) -> Result<()> {
        self.theirs = None;
        let mut service = Service {
            copies: Copies::of(trace),
            translations: Served::requested(),
            members: self.members.clone(),
            gathered: Gathered::default(),
        };
        let ours = Arc::clone(&self.ours);
        let serve = move || {
            while service.one(&ours) {}
            service.gathered
        };
        // Signals are for the thread that waits for them.
        let before = set_mask(Mask::all_async());
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(serve);
        set_mask(before);
        self.thread = Some(thread.map_err(no_server)?);
        Ok(())
    }

    /// Ends the server, and returns the replay's reports. All of its processes have ended, or
    /// said that they do: the reports that they sent before are there.
    ///
    /// # Errors
    /// There were more than can be kept.
    pub fn finish(mut self) -> Result<Gathered> {
        let gathered = self.end();
        if gathered.refused {
            return Err(Failure::setup(format!(
                "the replay takes more than {MOST_SUMS} checksums: choose a larger number with `--every`"
            )));
        }
        Ok(gathered)
    }

    /// Another descriptor of the replay's end.
    #[cfg(test)]
    pub(super) fn end_for_tests(&self) -> OwnedFd {
        let end = self.theirs.as_ref().and_then(|end| end.try_clone().ok());
        end.expect("it has not been given away")
    }

    fn end(&mut self) -> Gathered {
        // Messages sent before are still received; then there is an end. A second time changes
        // nothing.
        let _ = shutdown(&*self.ours, Shutdown::Both);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(gathered)) => gathered,
            _ => Gathered::default(),
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.end();
    }
}

fn no_server(e: std::io::Error) -> Failure {
    Failure::setup(format!("cannot serve a replay: {e}"))
}

/// The state of the server's thread.
struct Service {
    copies: Copies,
    translations: Option<Served>,
    members: Members,
    gathered: Gathered,
}

impl Service {
    /// Serves one request; `false`: there will be none any more.
    fn one(&mut self, socket: &OwnedFd) -> bool {
        let mut bytes = [0; REQUEST];
        let message = match socket::receive(socket, &mut bytes) {
            Ok(message) if message.len == 0 => return false,
            Ok(message) => message,
            Err(_) => return false,
        };
        if message.len != REQUEST {
            return true;
        }
        let Some((request, number)) = BrokerRequest::decode(&bytes) else {
            return true;
        };
        let answer = match request {
            BrokerRequest::Sum(sum) => {
                self.gathered.keep(sum);
                return true;
            }
            BrokerRequest::Known(most) => {
                self.known(socket, most, number);
                return true;
            }
            BrokerRequest::Copy(id) => self
                .copies
                .open(FileId(id))
                .map(|f| (f, BrokerOutcome::Here)),
            BrokerRequest::Translations(key) => self.translations(key),
            BrokerRequest::Pagemap => self.proc(message.sender, "pagemap", OFlags::RDONLY),
            BrokerRequest::Maps => self.proc(message.sender, "maps", OFlags::RDONLY),
            BrokerRequest::Memory => self.proc(message.sender, "mem", OFlags::RDWR),
        };
        let (file, outcome, errno) = match answer {
            Ok((file, outcome)) => (Some(file), outcome, 0),
            Err((outcome, errno)) => (None, outcome, errno),
        };
        let fd = file.as_ref().map(AsFd::as_fd);
        let bytes = encode_answer(outcome, errno, number);
        // A process that does not receive its answers, or is gone, goes without.
        let _ = socket::send(socket, &bytes, fd.as_slice());
        true
    }

    fn known(&mut self, socket: &OwnedFd, most: u32, number: u64) {
        let known = self.copies.known(MOST.min(most as usize));
        let mut bytes = encode_answer(BrokerOutcome::Checked, 0, number).to_vec();
        for (id, _) in &known {
            bytes.extend_from_slice(&id.0);
        }
        let fds: Vec<BorrowedFd<'_>> = known.iter().map(|(_, file)| file.as_fd()).collect();
        let _ = socket::send(socket, &bytes, &fds);
    }

    fn translations(&self, key: u128) -> std::result::Result<(File, BrokerOutcome), CopyRefusal> {
        let served = self.translations.as_ref().and_then(|s| s.open(key));
        match served {
            Some((file, true)) => Ok((file, BrokerOutcome::Checked)),
            Some((file, false)) => Ok((file, BrokerOutcome::Here)),
            None => Err((BrokerOutcome::Missing, 0)),
        }
    }

    /// A file about the sender, for whose number the kernel vouches.
    fn proc(
        &self,
        sender: Option<Pid>,
        name: &str,
        access: OFlags,
    ) -> std::result::Result<(File, BrokerOutcome), CopyRefusal> {
        let folder = sender.and_then(|sender| self.members.folder(sender));
        let folder = folder.ok_or((BrokerOutcome::Missing, 0))?;
        match rustix::fs::openat(&folder, name, access | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => Ok((file.into(), BrokerOutcome::Here)),
            Err(e) => Err((BrokerOutcome::Unreadable, e.raw_os_error())),
        }
    }
}
