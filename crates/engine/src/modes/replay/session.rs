//! One replaying process: its threads, its schedule, the trace they come from.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use relive_host::signal::{self, Disposition};
use relive_host::{enter, sys};
use relive_trace::{
    Encoded, Ending, FileId, Image, KeptPart, Kind, Origin, PartReader, TapeId, TapeReader, Trace,
};

use super::advance::{advance, advance_on};
use super::checksum::Checksums;
use super::files::open_copy;
use super::other_writers;
use super::turns::Turns;
use crate::broker;
use crate::failure::{Failure, Result, die};
use crate::machine::{count_translations, machine};
use crate::modes::live;
use crate::modes::replay::CONCURRENCY;
use crate::process::{Process, State};
use crate::streams::Streams;
use crate::tape::{Tape, TapeIn};
use crate::task::{End, Flow, Task};
use crate::{image, translations};

/// What hooks need of the session, while the loop holds the tasks.
pub struct Shared {
    /// The recording.
    pub trace: Trace,
    /// Threads made since the loop last looked.
    born: Vec<Task>,
    /// Indices of the children of this process, by pid in the recording.
    pub(super) children: BTreeMap<u32, u32>,
    /// Set in a forked child: the schedule of the process that it is now.
    became: Option<Turns>,
    /// What all processes of the replay map for files that are mapped shared.
    pub pool: File,
    /// Nothing is written to the standard streams.
    pub quiet: bool,
    /// What would be written, where somebody wants to have it.
    pub caught: Option<crate::timeline::Output>,
    /// Set for a timeline: the one process to replay, behind the processes that it comes
    /// from. Nothing forks and nothing waits for other processes then.
    follow: Option<Vec<u32>>,
}

static SHARED: OnceLock<Mutex<Shared>> = OnceLock::new();

/// Runs `f` with the shared part.
pub fn with<R>(f: impl FnOnce(&mut Shared) -> R) -> R {
    let shared = SHARED.get().expect("a replay has a session");
    f(&mut shared.lock().expect("no thread panics: panics abort"))
}

/// Events of this process that have been consumed.
static EVENTS: AtomicU64 = AtomicU64::new(0);

/// Something was put into `born` or `became`: looked at after each event, without a lock.
static NEWS: AtomicBool = AtomicBool::new(false);

/// Whether [`Session::collect`] has something to do.
pub(super) fn has_news() -> bool {
    NEWS.load(Ordering::Relaxed)
}

/// Events of this process that have been consumed.
pub fn events() -> u64 {
    EVENTS.load(Ordering::Relaxed)
}

/// Counts an event of this process, and of the whole tree.
pub fn count_event() {
    // Only the one thread of a replay writes it.
    EVENTS.store(events() + 1, Ordering::Relaxed);
    count_quietly();
}

/// Counts what is on a tape and is no event of a thread, for the whole tree only.
fn count_quietly() {
    if let Some(shm) = machine().shm.as_ref() {
        shm.header().events.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether output is suppressed.
#[must_use]
pub fn quiet() -> bool {
    with(|s| s.quiet)
}

/// Keeps output for whoever wants to have it.
pub fn caught(stream: u8, bytes: &[u8]) {
    with(|s| {
        if let Some(output) = &mut s.caught {
            output.push(stream, bytes);
        }
    });
}

/// Whether this replay is of one process alone.
#[must_use]
pub fn alone() -> bool {
    with(|s| s.follow.is_some())
}

/// Opens a tape. A thread may have none: its process ended before its first turn.
///
/// # Errors
/// The trace is damaged.
pub fn open_tape(id: TapeId) -> Result<Tape> {
    match with(|s| s.trace.tape(id)) {
        Ok(tape) => Ok(Tape::In(TapeIn::new(tape))),
        Err(relive_trace::Error::NoTape { .. }) => Ok(Tape::Blank),
        Err(e) => Err(Failure::setup(e)),
    }
}

/// A thread has been made; it gets its first turn from the schedule.
pub fn add_task(child: Box<Task>) {
    with(|s| s.born.push(*child));
    NEWS.store(true, Ordering::Relaxed);
}

/// Forks the replay at the birth of process `child`, recorded as `pid`. `true` in the child. A
/// replay of one process alone does not fork: it goes on as that process or as its parent.
///
/// # Errors
/// The kernel's refusal.
pub fn fork_host(child: u32, pid: u32) -> Result<bool> {
    if let Some(follows) = with(|s| s.follow.as_ref().map(|f| f.contains(&child))) {
        return Ok(follows);
    }
    let shm = machine()
        .shm
        .as_ref()
        .ok_or_else(|| Failure::internal("a replay has shared memory"))?;
    other_writers::forks()?;
    reap_children()?;
    let running = &CONCURRENCY.of(shm).running;
    running.fetch_add(1, Ordering::AcqRel);
    machine().memory().translator.about_to_fork();
    // SAFETY: a replay has one host thread, which holds no lock here.
    let host = unsafe { libc::fork() };
    if host < 0 {
        running.fetch_sub(1, Ordering::AcqRel);
        return Err(Failure::setup(format!(
            "cannot fork the replay: {}",
            std::io::Error::last_os_error()
        )));
    }
    if host == 0 {
        super::checksum::is_forked();
        with(|s| s.children.clear());
        shm.register(std::process::id());
        crate::stats::begin(count_translations);
        return Ok(true);
    }
    with(|s| s.children.insert(pid, child));
    Ok(false)
}

/// Takes the processes off the kernel's list that this one forked and that have ended: what became
/// of them is on the tapes, but the time that they used is to be found where it is looked for, with
/// their parent's. Those that outlive their parent the supervisor inherits.
///
/// # Errors
/// One was killed: of a signal no forked process dies by itself.
fn reap_children() -> Result<()> {
    let mut status = 0;
    // SAFETY: only fills the status.
    while unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } > 0 {
        if libc::WIFSIGNALED(status) {
            return Err(super::confine::killed(libc::WTERMSIG(status)));
        }
    }
    Ok(())
}

/// Takes the first event of a child's tape; in a forked child also the process over, which
/// as a `member` of the group begins when it is its turn.
///
/// # Errors
/// The tape does not begin as one.
pub fn start_child(task: &mut Task, origin: Origin, member: bool) -> Result<()> {
    let start = match task.tape.peek()?.map(|e| e.kind) {
        Some(Kind::Start(s)) if s.origin == origin => s,
        None if origin == Origin::Fork => {
            // Killed before its first event.
            Turns::of(task.process.index)?.end();
            leave();
        }
        // The same: its parent goes on at once.
        None => return Ok(()),
        other => {
            let expected = format!("{:?}", other.map(|k| format!("{k:?}")));
            return Err(super::divergence(
                task,
                &expected,
                &format!("the start of a child ({origin:?})"),
            ));
        }
    };
    task.tid = start.tid;
    if origin == Origin::Fork {
        let mut turns = Turns::of(task.process.index)?;
        if member {
            other_writers::is_born();
        }
        if member && turns.next()?.is_none() {
            turns.end();
            leave();
        }
        with(|s| s.became = Some(turns));
        NEWS.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// A replaying process ends without a result of its own.
fn leave() -> ! {
    finished();
    sys::exit_group(0)
}

fn finished() {
    crate::stats::end();
    if let Some(shm) = machine().shm.as_ref() {
        let running = &CONCURRENCY.of(shm).running;
        running.fetch_sub(1, Ordering::AcqRel);
        shm.unregister(std::process::id());
        super::concurrency::tell(shm);
    }
}

/// The threads of the process and their order.
pub(super) struct Session {
    /// All but the one whose turn it is, by slot.
    pub(super) tasks: BTreeMap<u32, Box<Task>>,
    turns: Turns,
    /// Exit code of the first thread, if it ended before the others.
    leader: i32,
    checksums: Option<Checksums>,
}

/// Who goes on after an event.
pub(super) enum Settled {
    /// This task.
    Goes(Box<Task>),
    /// Nobody: the process has ended (`None`: where the recording was cut off). The task
    /// that ended it, unless that had ended before.
    Ended(Option<Box<Task>>, Option<End>),
}

/// Asks for a descriptor of this process's memory, in place of that of the one that it was forked
/// from.
fn own_memory(old: i32, _: i32) -> Option<i32> {
    if old >= 0 {
        // SAFETY: the translator's, which uses it no more.
        unsafe { libc::close(old) };
    }
    broker::proc_file(broker::Proc::Memory).map(IntoRawFd::into_raw_fd)
}

/// Replays the first process of the trace, and by forking all others.
///
/// # Errors
/// Divergence, a damaged trace.
pub fn main() -> Result<Infallible> {
    // All that a replay opens itself: afterwards there are no paths any more.
    let guide = super::guided::requested();
    let follow = guide.as_ref().map(|g| g.follow.clone());
    let trace = Trace::open(&machine().trace).map_err(Failure::setup)?;
    other_writers::open(follow.as_deref().unwrap_or_default())?;
    broker::attach()?;
    machine().memory().translator.ask_for_memory(own_memory);
    super::confine::enter(guide.is_some())?;
    crate::input::attach(trace.input())?;
    if let (Some(_), Some(shm)) = (&guide, machine().shm.as_ref()) {
        shm.make_private()?;
    }
    let pool = crate::sharing::objects::pool().map_err(Failure::setup)?;
    let quiet = std::env::var_os("RELIVE_QUIET").is_some();
    let shared = Shared {
        trace,
        born: Vec::new(),
        children: BTreeMap::new(),
        became: None,
        pool,
        quiet,
        caught: None,
        follow,
    };
    if SHARED.set(Mutex::new(shared)).is_err() {
        return Err(Failure::internal("a replay starts once"));
    }
    let root = TapeId::new(0, 0);
    let mut tape = open_tape(root)?;
    let pid = match tape.peek()?.map(|e| e.kind) {
        Some(Kind::Start(s)) => s.pid,
        _ => {
            return Err(Failure::setup(
                "the trace is empty: the recording was cut off before the program began",
            ));
        }
    };
    let process = std::sync::Arc::new(Process::new(
        0,
        pid,
        1,
        State::new(Streams::standard(), Vec::new(), &[]),
    ));
    let mut task = Box::new(Task::new(process, 0, pid, tape));
    live::prepare_thread(&mut task);
    for sig in relive_host::signal::SYNCHRONOUS {
        signal::set_disposition(sig, Disposition::Handler);
    }
    // Of SIGPIPE only the one process would die that writes, and the others would wait for
    // its turn to be over. The error number instead is a failure like others, which ends all.
    signal::set_disposition(libc::SIGPIPE, Disposition::Ignore);
    if let (None, Some(shm)) = (&guide, machine().shm.as_ref()) {
        shm.register(std::process::id());
    }
    let mut session = Session {
        tasks: BTreeMap::new(),
        turns: Turns::of(0)?,
        leader: 0,
        checksums: Checksums::requested(),
    };
    match guide {
        Some(guide) => super::guided::serve(session, task, &guide),
        None => session.run(task),
    }
}

impl Session {
    fn run(&mut self, mut task: Box<Task>) -> Result<Infallible> {
        adopt(&mut task);
        loop {
            let goes_on = self.goes_on(&mut task)?;
            let flow = match self.checksums {
                None => advance_on(&mut task, goes_on)?,
                Some(_) => advance(&mut task, goes_on)?,
            };
            self.collect(&mut task);
            let process = task.process.index;
            if let Some(c) = &mut self.checksums {
                let events = events();
                match flow {
                    Flow::ProcessEnd(_) => c.take(&task, events)?,
                    _ => c.tick(&task, events)?,
                }
            }
            match self.settle(task, flow)? {
                Settled::Goes(next) => task = next,
                Settled::Ended(_, end) => self.end(process, end),
            }
        }
    }

    /// Whether somebody needs what a task does behind its last event: a thread that has a
    /// turn after the present one, or another process.
    pub(super) fn goes_on(&mut self, task: &mut Task) -> Result<bool> {
        Ok(self.turns.more()? || (task.tape.at_end()? && self.turns.awaited()?))
    }

    /// Draws the consequence of an event of the running task.
    pub(super) fn settle(&mut self, mut task: Box<Task>, flow: Flow) -> Result<Settled> {
        Ok(match flow {
            Flow::Continue => Settled::Goes(task),
            Flow::Park => match self.next_turn(Some(task))? {
                Some(next) => Settled::Goes(next),
                None => Settled::Ended(None, None),
            },
            Flow::ThreadEnd(code) => {
                if task.index == 0 {
                    self.leader = code;
                }
                match self.next_turn(None)? {
                    Some(next) => Settled::Goes(next),
                    None => Settled::Ended(Some(task), Some(End::Code(self.leader))),
                }
            }
            Flow::ProcessEnd(end) => {
                if super::births::resume_parent(&mut task)? {
                    Settled::Goes(task)
                } else {
                    Settled::Ended(Some(task), Some(end))
                }
            }
            Flow::Exec(bytes) => {
                self.exec(&mut task, &bytes)?;
                Settled::Goes(task)
            }
        })
    }

    /// Takes in new threads, or forgets the others in a forked child.
    pub(super) fn collect(&mut self, task: &mut Task) {
        debug_assert!(
            !self.tasks.contains_key(&task.slot),
            "the running task is not in the table"
        );
        if !NEWS.load(Ordering::Relaxed) {
            return;
        }
        NEWS.store(false, Ordering::Relaxed);
        let (born, became) = with(|s| (std::mem::take(&mut s.born), s.became.take()));
        if let Some(turns) = became {
            self.tasks.clear();
            self.turns = turns;
            self.leader = 0;
        }
        for child in born {
            self.tasks.insert(child.slot, Box::new(child));
        }
    }

    /// Puts the running task away and takes the one whose turn it is; `None` when the
    /// recording of this process ends here.
    fn next_turn(&mut self, parked: Option<Box<Task>>) -> Result<Option<Box<Task>>> {
        if let Some(t) = parked {
            self.tasks.insert(t.slot, t);
        }
        let Some(slot) = self.turns.next()? else {
            return Ok(None);
        };
        let mut task = self.tasks.remove(&slot).ok_or_else(|| {
            Failure::Divergence(format!(
                "the schedule names thread {slot}, which does not exist in the replay"
            ))
        })?;
        tracing::debug!(target: "sched", "turn of {} at tick {}", task.id(), task.ctx.ticks());
        adopt(&mut task);
        Ok(Some(task))
    }

    fn exec(&mut self, task: &mut Task, bytes: &[u8]) -> Result<()> {
        let img = Image::decode(bytes).map_err(Failure::setup)?;
        if task.vforked.is_some() {
            if !fork_host(task.process.index, task.process.pid)? {
                super::births::resume_parent(task)?;
                return Ok(());
            }
            task.vforked = None;
            task.slot = task.index;
            self.turns = Turns::of(task.process.index)?;
            self.leader = 0;
        }
        if task.ctx.rip != 0 {
            self.turns.begin_program();
        }
        self.tasks.clear();
        let mut memory = machine().memory();
        // No thread is in the cache: there is none but this one.
        memory.translator.flush().map_err(Failure::setup)?;
        translations::load_served(&mut memory, &img.path);
        let old: Vec<(u64, u64)> = memory.space.iter().map(|r| (r.start, r.end)).collect();
        for (start, end) in old {
            memory.unmap(start, end);
        }
        memory.space = crate::space::AddressSpace::new();
        let mut open = Vec::new();
        image::apply(&img, &mut memory, &mut task.ctx, |id: FileId| {
            let file = open_copy(&id.0)?;
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            open.push(file);
            Ok(fd)
        })?;
        drop(memory);
        exec_state(task, &img);
        Ok(())
    }

    /// The process has ended; `None`: where the recording was cut off (which it must have
    /// been: no tape of the process may speak of an end that was not reached).
    fn end(&self, process: u32, end: Option<End>) -> ! {
        if end.is_none()
            && let Err(e) = check_cut_off(process)
        {
            die(&e);
        }
        self.turns.end();
        finished();
        match end {
            Some(End::Code(code)) => sys::exit_group(code),
            Some(End::Signal(sig)) => live::die_of(sig),
            None => sys::exit_group(0),
        }
    }
}

/// All threads wait for ever: right only if the recording ended so, killed from outside.
pub(super) fn check_cut_off(process: u32) -> Result<()> {
    let tapes: Vec<TapeReader> = with(|s| {
        let ids: Vec<TapeId> = s
            .trace
            .tapes()
            .iter()
            .map(|t| t.id)
            .filter(|id| id.process == process && !id.is_schedule())
            .collect();
        ids.into_iter()
            .map(|id| s.trace.tape(id).map_err(Failure::setup))
            .collect::<Result<_>>()
    })?;
    for mut tape in tapes {
        while let Some(e) = tape.next().map_err(Failure::setup)? {
            if let Kind::End {
                how: Ending::ProcessExit | Ending::Killed,
                ..
            } = e.kind
            {
                let what = super::report::show(&e);
                return Err(Failure::Divergence(format!(
                    "the replay of process {process} stopped, although its recording goes on to: {what} (thread {})",
                    tape.id()
                )));
            }
        }
    }
    Ok(())
}

/// What exec changes of a thread besides memory and registers (execve(2)).
fn exec_state(task: &mut Task, image: &Image) {
    let mut state = task.process.state();
    for action in &mut state.actions {
        let ignored = action.handler == crate::signals::SIG_IGN;
        *action = relive_host::signal::KernelAction::default();
        if ignored {
            action.handler = crate::signals::SIG_IGN;
        }
    }
    state.exe.clone_from(&image.path);
    state.robust.clear();
    drop(state);
    task.signals.altstack = crate::signals::AltStack::default();
    task.signals.restart = None;
    task.forbid(crate::forbidden::Forbidden::default());
    task.trap_flag = crate::trap_flag::TrapFlag::Off;
    task.segments = relive_host::segments::Segments::default();
    (task.robust, task.clear_tid) = ((0, 24), 0);
    task.tid = task.process.pid;
    task.slot = task.index;
    let path = &image.path;
    task.set_name(path.rsplit(|&b| b == b'/').next().unwrap_or(path));
}

pub(super) fn adopt(task: &mut Task) {
    // SAFETY: the context lives in its box; the one adopted before is not entered again
    // before it is adopted again.
    unsafe { enter::adopt(&raw mut *task.ctx) };
}
