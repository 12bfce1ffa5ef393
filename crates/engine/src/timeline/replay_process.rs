//! One replaying process as its timeline sees it: orders go out, answers come in, copies are
//! made.

mod questions;
mod searches;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use relive_dbt::FRAGMENT_INSNS;
use relive_trace::Manifest;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::SendFlags;
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::time::Timespec;

use crate::broker::Broker;
use crate::failure::{Failure, Result};
use crate::guide::framing::{receive, send};
use crate::guide::protocol::{Output, Ran, ReplayStatus, Request, Response, RunRequest, StopSet};
use crate::guide::start_variable::{Guide, VARIABLE as GUIDE};
use crate::mode::Name;
use crate::modes::replay::concurrency::CONCURRENCY;
use crate::modes::replay::confine;
use crate::modes::replay::epoch::{self, Epoch};
use crate::modes::replay::linear::hints::Hints;
use crate::modes::replay::linear::wanted;
use crate::modes::replay::other_writers::FOLDER as OTHER_WRITERS;
use crate::ordered_sites;
use crate::own_descriptors::{above_streams, outlive_exec};
use crate::shm::Shm;
use crate::start_data::Boot;
use crate::{messages, supervisor};

/// The parts that all processes of a timeline share.
struct Common {
    shm: Shm,
    _descriptor: OwnedFd,
    /// The first process, which is a child of this one.
    root: i32,
    /// Opens the recording's files for all of them.
    _broker: Broker,
}

impl Common {
    /// The signal that has killed the first process; 0 if none has.
    fn root_signal(&self) -> i32 {
        // Its socket is closed a little before it has ended.
        for _ in 0..200 {
            if let Some(signal) = supervisor::ended_by(self.root) {
                return signal;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        0
    }
}

fn no_socket(e: io::Error) -> Failure {
    Failure::setup(format!("cannot start a replay: {e}"))
}

/// One launch at a time. Process-wide: an end of a socket that is to outlive one exec must not outlive another one, by which
/// a replay would seem to live on.
static LAUNCHES: Mutex<()> = Mutex::new(());

/// The order to a replay for fragments of at most so many instructions.
fn fragments(most: Option<u32>) -> Vec<(&'static str, String)> {
    let most = most.map(|most| (FRAGMENT_INSNS, most.to_string()));
    most.into_iter().collect()
}

/// Whether an error means that the other end is closed.
fn is_end(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

impl Drop for Common {
    fn drop(&mut self) {
        // Its socket is closed, so it is about to end.
        supervisor::kill(self.root);
        let _ = waitpid(Pid::from_raw(self.root), WaitOptions::empty());
    }
}

/// A replaying process. Dropping it ends it.
pub struct ReplayProcess {
    socket: UnixStream,
    /// Its process id.
    pub pid: i32,
    stops: StopSet,
    common: Arc<Common>,
}

impl ReplayProcess {
    /// Starts a replay of one process of a trace, which is `follow`'s last; the others are
    /// those that it comes from. It stands where that process begins. `other_writers` is the folder
    /// with the changes that others make to memory that these processes share.
    ///
    /// # Errors
    /// It cannot be started, or the trace is damaged.
    pub fn start(
        trace: &Path,
        follow: &[u32],
        other_writers: Option<&Path>,
    ) -> Result<(Self, ReplayStatus)> {
        let extra = other_writers.map(|path| (OTHER_WRITERS, path.display().to_string()));
        let extra = extra.into_iter().collect();
        Self::launch(trace, follow, None, None, extra)?.begin()
    }

    /// The same without memory that others write; with fragments of at most so many instructions.
    ///
    /// # Errors
    /// As [`ReplayProcess::start`].
    pub(super) fn start_with(
        trace: &Path,
        follow: &[u32],
        fragment_insns: Option<u32>,
    ) -> Result<(Self, ReplayStatus)> {
        Self::launch(trace, follow, None, None, fragments(fragment_insns))?.begin()
    }

    /// Starts a trial of a search for the order of the threads of one process, which comes to where that, or the epoch, begins with
    /// these decisions; see [`ReplayProcess::start`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn start_trial(
        trace: &Path,
        follow: &[u32],
        hints: &Hints,
        epoch: Epoch,
    ) -> Result<Self> {
        let trace = std::path::absolute(trace).map_err(Failure::setup)?;
        let manifest = Manifest::read(&trace).map_err(Failure::setup)?;
        let mut extra = vec![(wanted::VARIABLE, wanted::trial_with(hints))];
        if epoch != Epoch::default() {
            extra.push((epoch::VARIABLE, epoch.to_text()));
        }
        let host = Self::launch(&trace, follow, None, Some(&manifest), extra)?;
        Ok(host.begin()?.0)
    }

    /// Starts a replay of one process with the session image of that work, where it stands then, with fragments of at most
    /// so many instructions.
    ///
    /// # Errors
    /// It cannot be started, or the image or the trace is damaged.
    pub fn resume(
        trace: &Path,
        follow: &[u32],
        work: u64,
        fragment_insns: Option<u32>,
    ) -> Result<(Self, ReplayStatus)> {
        let mut host = Self::launch(trace, follow, Some(work), None, fragments(fragment_insns))?;
        let status = host.status()?;
        Ok((host, status))
    }

    fn begin(mut self) -> Result<(Self, ReplayStatus)> {
        match self.ask(&Request::Begin)? {
            Response::Status(status) => Ok((self, status)),
            other => Err(unexpected(&other)),
        }
    }

    /// A process that waits for its first request; with the recording whose operations it counts, and more in its environment.
    fn launch(
        trace: &Path,
        follow: &[u32],
        image: Option<u64>,
        ordered: Option<&Manifest>,
        more: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let _alone = LAUNCHES.lock().unwrap_or_else(PoisonError::into_inner);
        crate::descriptor_limit::for_command()?;
        crate::sections::place();
        let (shm, descriptor) = Shm::create()?;
        CONCURRENCY.of(&shm).begin();
        ordered_sites::tell_turns(&shm, trace)?;
        if let Some(manifest) = ordered {
            ordered_sites::give(&shm, manifest);
        }
        let (ours, end) = UnixStream::pair().map_err(no_socket)?;
        let theirs = above_streams(&end).map_err(no_socket)?;
        drop(end);
        // The host process must find its end open after exec.
        outlive_exec(&theirs).map_err(no_socket)?;
        let shown = vec![b"relive-timeline".to_vec()];
        let memory = Some(shm.descriptor());
        let boot = Boot::new(Name::Replay, trace.to_owned(), memory, &shown[0]);
        let guide = Guide {
            fd: theirs.as_raw_fd(),
            follow: follow.to_vec(),
            image,
        };
        let mut extra = vec![("RELIVE_QUIET", "1".to_owned()), (GUIDE, guide.value())];
        extra.extend(more);
        let mut broker = Broker::new()?;
        extra.push(broker.variable());
        let root = supervisor::start(&boot, &shown, false, &extra)?;
        drop(theirs);
        let served = broker.serve(trace);
        let common = Common {
            shm,
            _descriptor: descriptor,
            root,
            _broker: broker,
        };
        served?;
        Ok(Self {
            socket: ours,
            pid: root,
            stops: StopSet::default(),
            common: Arc::new(common),
        })
    }

    fn gone(&self, e: &io::Error) -> Failure {
        match self.common.shm.failure() {
            Some(failure) => failure,
            None if is_end(e) => confine::killed(self.common.root_signal()),
            None => Failure::internal(format!("a replaying process cannot be asked ({e})")),
        }
    }

    fn ask_with(&mut self, request: &Request, bytes: &[u8]) -> Result<(Response, Vec<u8>)> {
        send(&mut self.socket, request, bytes).map_err(|e| self.gone(&e))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<(Response, Vec<u8>)> {
        match receive(&mut self.socket).map_err(|e| self.gone(&e))? {
            (Response::Failed(failure), _) => Err(failure),
            answer => Ok(answer),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Response> {
        Ok(self.ask_with(request, &[])?.0)
    }

    /// A copy that can go on by itself.
    ///
    /// # Errors
    /// No memory, no processes.
    pub fn fork(&mut self) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().map_err(no_socket)?;
        let mut message = Vec::new();
        send(&mut message, &Request::Fork, &[]).map_err(Failure::internal)?;
        send_descriptor(&self.socket, &message, &theirs).map_err(|e| self.gone(&e))?;
        drop(theirs);
        let mut copy = match self.answer()?.0 {
            Response::Forked(pid) => Self {
                socket: ours,
                pid,
                stops: self.stops.clone(),
                common: Arc::clone(&self.common),
            },
            other => return Err(unexpected(&other)),
        };
        // The copy is one only when it has separated its shared memory.
        match copy.answer()?.0 {
            Response::Done => Ok(copy),
            other => Err(unexpected(&other)),
        }
    }

    /// Goes on; stops are set first if they are others than before.
    ///
    /// # Errors
    /// Divergence, or the process is gone.
    pub fn run(
        &mut self,
        run: &RunRequest,
        stops: &StopSet,
        wanted: &mut dyn Interrupter,
    ) -> Result<Ran> {
        self.set_stops(stops)?;
        send(&mut self.socket, &Request::Run(*run), &[]).map_err(|e| self.gone(&e))?;
        let (ran, bytes) = self.ran(wanted)?;
        for (stream, bytes) in Output(bytes).iter() {
            wanted.output(stream, bytes);
        }
        Ok(ran)
    }

    /// The program that runs: its path, and the stack pointer that it began with.
    ///
    /// # Errors
    /// The process is gone.
    pub fn program(&mut self) -> Result<(Vec<u8>, u64)> {
        match self.ask_with(&Request::Program, &[])? {
            (Response::Done, bytes) => match bytes.split_first_chunk::<8>() {
                Some((rsp, path)) => Ok((path.to_vec(), u64::from_le_bytes(*rsp))),
                None => Err(unexpected(&Response::Done)),
            },
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Runs a thread away from the recording; returns its output too.
    ///
    /// # Errors
    /// Something that cannot be done away from the recording.
    pub fn inferior_call(
        &mut self,
        slot: u32,
        step: bool,
        stops: &StopSet,
        wanted: &mut dyn Interrupter,
    ) -> Result<(Ran, Vec<u8>)> {
        self.set_stops(stops)?;
        let request = Request::InferiorCall { slot, step };
        send(&mut self.socket, &request, &[]).map_err(|e| self.gone(&e))?;
        self.ran(wanted)
    }

    fn set_stops(&mut self, stops: &StopSet) -> Result<()> {
        if self.stops != *stops {
            match self.ask(&Request::Stops(stops.clone()))? {
                Response::Done => self.stops = stops.clone(),
                other => return Err(unexpected(&other)),
            }
        }
        Ok(())
    }

    /// Waits for the end of a run; an interruption is a question in between.
    fn ran(&mut self, wanted: &mut dyn Interrupter) -> Result<(Ran, Vec<u8>)> {
        let mut asked = false;
        while !asked && !readable(&self.socket, 50) {
            if wanted.wanted() {
                send(&mut self.socket, &Request::Status, &[]).map_err(|e| self.gone(&e))?;
                asked = true;
            }
        }
        let (reply, bytes) = self.answer()?;
        if asked {
            self.answer()?;
        }
        match reply {
            Response::Ran(ran) => Ok((*ran, bytes)),
            other => Err(unexpected(&other)),
        }
    }
}

/// A source of interruptions of a run.
pub trait Interrupter {
    /// Whether a run is to stop now; asked every few milliseconds.
    fn wanted(&mut self) -> bool;

    /// The guest has written to one of its standard streams, where the timeline goes forward.
    fn output(&mut self, _stream: u8, _bytes: &[u8]) {}
}

/// No run is interrupted.
pub struct Uninterrupted;

impl Interrupter for Uninterrupted {
    fn wanted(&mut self) -> bool {
        false
    }
}

fn unexpected(reply: &Response) -> Failure {
    Failure::internal(format!("a replaying process answered {reply:?}"))
}

/// Whether bytes come, or the other end is closed, within so many milliseconds.
fn readable(socket: &UnixStream, ms: u32) -> bool {
    let most = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(ms) * 1_000_000,
    };
    let mut sockets = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut sockets, Some(&most)).is_ok_and(|ready| ready > 0)
}

/// Sends bytes with a descriptor.
fn send_descriptor(to: &UnixStream, bytes: &[u8], what: &UnixStream) -> io::Result<()> {
    let descriptors = [what.as_fd()];
    match messages::send(to.as_fd(), bytes, &descriptors, SendFlags::empty())? {
        n if n == bytes.len() => Ok(()),
        _ => Err(io::Error::other("a short write")),
    }
}
