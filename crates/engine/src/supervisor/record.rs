//! The recorder's own process: starts the host, drains the rings, writes the trace, and
//! ends as the program ended.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use relive_host::sys;
use relive_trace::{Bytes, ExitStatus, Manifest, Summary, TraceWriter};

use super::{Status, absolute, environment, find_program};
use crate::failure::{Failure, Result};
use crate::mode::{HandedOn, Name};
use crate::remarks::REMARKS;
use crate::shm::{RINGS, Shm, alive, state};
use crate::start_data::Boot;
use crate::stats::Totals;

/// How often everything that was logged is written out, at least.
const FLUSH: Duration = Duration::from_millis(50);
/// Bytes of schedule that would make a chunk of their own before the rest is stored.
const MANY_TURNS: usize = 64 * 1024;

/// What to record.
pub struct RecordOptions<'a> {
    /// The program as given.
    pub program: &'a OsStr,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Where the trace goes: an empty or new folder.
    pub trace: &'a Path,
    /// Seed of the schedule, and whether it is chaotic; `None`: random and fair.
    pub seed: Option<(u64, bool)>,
    /// Kill the program after this time.
    pub timeout: Option<Duration>,
    /// Its standard output and error go nowhere.
    pub silent: bool,
    /// Count what is done.
    pub count: bool,
}

/// A finished recording.
#[derive(Debug)]
pub struct Recording {
    /// How the program ended.
    pub status: Status,
    /// It was killed because of the timeout.
    pub timed_out: bool,
    /// What the trace says of itself.
    pub summary: Summary,
    /// What was counted, if that was asked for.
    pub totals: Option<Totals>,
    /// What is to be said of programs that could not do something.
    pub remarks: Vec<String>,
}

/// Records a program to its end.
///
/// # Errors
/// Whatever stops Relive; the trace is then incomplete, or not there.
pub fn record(options: &RecordOptions<'_>) -> Result<Recording> {
    keep_heap();
    let target = find_program(options.program, options.args)?;
    let trace = absolute(options.trace)?;
    let writer = TraceWriter::create(&trace, &manifest(options)?).map_err(Failure::setup)?;
    crate::sections::place();
    let (shm, _fd) = Shm::create()?;
    if options.count {
        crate::stats::COUNTERS.of(&shm).count();
    }
    crate::translations::choose();
    let shown = target.argv.clone();
    let memory = Some(shm.descriptor());
    let boot = Boot {
        path: target.path,
        argv: target.argv,
        env: environment(),
        handed_on: HandedOn {
            seed: options.seed,
            ..HandedOn::default()
        },
        ..Boot::new(Name::Serial, trace, memory, &target.called)
    };
    drop(target.file);
    become_subreaper();
    let pid = start(&boot, &shown, options.silent)?;
    ignore_keyboard();
    forward_endings();
    wake_at_child_end(&shm);
    Drain {
        shm,
        writer,
        tapes: 0,
        events: 0,
        ticks: 0,
        started: Instant::now(),
    }
    .run(pid, options.timeout)
}

fn manifest(options: &RecordOptions<'_>) -> Result<Manifest> {
    let command = std::iter::once(options.program.to_owned())
        .chain(options.args.iter().cloned())
        .map(|a| Bytes(a.into_vec()))
        .collect();
    let cwd = std::env::current_dir()
        .map_err(|e| Failure::setup(format!("cannot find the working folder: {e}")))?;
    let mut manifest = Manifest::new(
        command,
        Bytes(cwd.as_os_str().as_bytes().to_vec()),
        environment().into_iter().map(Bytes).collect(),
    );
    manifest.chaos_seed = options.seed.and_then(|(seed, chaos)| chaos.then_some(seed));
    Ok(manifest)
}

/// Buffers of events come and go, and some grow to a few hundred KiB: memory that was given back
/// to the kernel each time would be got back by a page fault for every 4 KiB.
fn keep_heap() {
    for (what, bytes) in [
        (libc::M_MMAP_THRESHOLD, 8 << 20),
        (libc::M_TRIM_THRESHOLD, 16 << 20),
        (libc::M_TOP_PAD, 1 << 20),
    ] {
        // SAFETY: sets a number of the allocator's; a refusal changes nothing.
        unsafe { libc::mallopt(what, bytes) };
    }
}

/// Orphans of the tree become children of the supervisor, which waits for them.
fn become_subreaper() {
    // SAFETY: changes how orphans are inherited, nothing else.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Starts a host process.
fn start(boot: &Boot, shown: &[Vec<u8>], silent: bool) -> Result<i32> {
    start_with(boot, shown, silent, &[])
}

/// Starts a host process with more variables of Relive's own.
pub(super) fn start_with(
    boot: &Boot,
    shown: &[Vec<u8>],
    silent: bool,
    extra: &[(&str, String)],
) -> Result<i32> {
    if !Path::new("/proc/self/exe").exists() {
        return Err(Failure::setup(
            "there is no /proc here, and Relive needs it: mount it",
        ));
    }
    // SAFETY: the other threads of this process, if there are some, serve replays and look at no
    // environment; the child only makes calls that are allowed there and replaces itself.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(Failure::setup(format!(
            "cannot start a process: {}",
            std::io::Error::last_os_error()
        )));
    }
    if pid == 0 {
        if silent {
            // SAFETY: plain descriptor calls in the child.
            unsafe {
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                libc::dup2(null, 1);
                libc::dup2(null, 2);
                libc::close(null);
            }
        }
        // A program whose recorder has been killed must not go on unrecorded.
        // SAFETY: a setting of this process, which exec keeps.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        for (name, value) in extra {
            // SAFETY: the child has one thread.
            unsafe { std::env::set_var(name, value) };
        }
        let Err(e) = boot.exec(shown, crate::descriptor_limit::of_program());
        crate::failure::complain(&format!(
            "cannot start the host process: {}",
            std::io::Error::from_raw_os_error(e)
        ));
        sys::exit_group(crate::failure::EXIT_STATUS);
    }
    Ok(pid)
}

/// The keyboard's signals go to the whole group: the program decides what they mean.
pub(super) fn ignore_keyboard() {
    for sig in [libc::SIGINT, libc::SIGQUIT] {
        relive_host::signal::set_disposition(sig, relive_host::signal::Disposition::Ignore);
    }
}

/// A signal that was sent to the recorder and is meant for the program.
static TO_FORWARD: AtomicI32 = AtomicI32::new(0);

extern "C" fn note_forward(sig: i32) {
    TO_FORWARD.store(sig, Ordering::Release);
}

/// The word that the recorder sleeps on, for the handler of SIGCHLD.
static WAKE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn note_child(_: i32) {
    // SAFETY: null, or a word in the shared memory, which stays mapped.
    if let Some(word) = unsafe { WAKE.load(Ordering::Acquire).as_ref() } {
        word.fetch_add(1, Ordering::AcqRel);
    }
}

/// The end of a child ends the supervisor's sleep.
pub(super) fn wake_at_child_end(shm: &Shm) {
    WAKE.store(
        std::ptr::from_ref(&shm.header().wake).cast_mut(),
        Ordering::Release,
    );
    // SAFETY: the handler only moves an atomic word.
    unsafe { libc::signal(libc::SIGCHLD, note_child as *const () as libc::sighandler_t) };
}

/// What ends the recorder natively is passed on to the program, which decides.
pub(super) fn forward_endings() {
    for sig in [libc::SIGTERM, libc::SIGHUP] {
        if !relive_host::signal::is_ignored(sig) {
            // SAFETY: the handler only stores to an atomic.
            unsafe { libc::signal(sig, note_forward as *const () as libc::sighandler_t) };
        }
    }
}

/// Sends what was sent to the supervisor to the program's first process, which has not been
/// waited for.
pub(super) fn pass_on(root: i32) {
    let signal = TO_FORWARD.swap(0, Ordering::AcqRel);
    if signal != 0 {
        // SAFETY: the process is a child of this one and keeps its id until it is waited for.
        unsafe { libc::kill(root, signal) };
    }
}

struct Drain {
    shm: Shm,
    writer: TraceWriter,
    /// Of the tapes that have ended: how many, their events and ticks.
    tapes: u32,
    events: u64,
    ticks: u64,
    started: Instant,
}

impl Drain {
    fn run(mut self, root: i32, timeout: Option<Duration>) -> Result<Recording> {
        let mut status = None;
        let mut timed_out = false;
        let mut flushed = Instant::now();
        loop {
            let seen = self.shm.header().wake.load(Ordering::Acquire);
            let born = self.shm.all_born();
            let open = self.drain()?;
            if let Some(text) = self.shm.failure() {
                self.kill_all();
                self.writer.flush_all().map_err(Failure::setup)?;
                return Err(Failure::Told(text));
            }
            if flushed.elapsed() >= FLUSH {
                self.writer.flush_all().map_err(Failure::setup)?;
                flushed = Instant::now();
            }
            let mut ended = false;
            while let Some((pid, s)) = reap() {
                ended = true;
                if pid == root {
                    status = Some(Status::from_wait(s));
                }
            }
            if ended {
                // Their rings are whole now.
                continue;
            }
            // Whose parent has ended may have no tape yet. Neither has who was killed too early.
            let complete =
                born.is_some() && born == self.shm.all_born() || !super::replay::has_children();
            if status.is_some() && !open && complete {
                break;
            }
            if status.is_none() {
                pass_on(root);
            }
            if let (Some(limit), None, false) = (timeout, status, timed_out)
                && self.started.elapsed() > limit
            {
                timed_out = true;
                self.kill_all();
            }
            sys::futex_wait(
                &self.shm.header().wake,
                seen,
                Some(if status.is_some() { 5 } else { 20 }),
            );
        }
        let status = status.unwrap_or(Status::Code(0));
        let summary = Summary {
            exit: match status {
                Status::Code(c) => ExitStatus::Code(c),
                Status::Signal(s) => ExitStatus::Signal(s),
            },
            processes: self.shm.processes().into(),
            threads: self.tapes.into(),
            wall_ms: self.started.elapsed().as_millis() as u64,
            events: self.events,
            ticks: self.ticks,
            raw_bytes: 0,
            stored_bytes: 0,
        };
        let manifest = self.writer.finish(&summary).map_err(Failure::setup)?;
        Ok(Recording {
            status,
            timed_out,
            summary: manifest.summary.unwrap_or(summary),
            totals: crate::stats::COUNTERS.of(&self.shm).totals(),
            remarks: REMARKS.of(&self.shm).sentences(),
        })
    }

    /// Reads all rings once; says whether any tape can still grow.
    ///
    /// Schedules are read first and stored last: whatever turn is in the trace, the events
    /// before it are there too, however the recording is cut off.
    fn drain(&mut self) -> Result<bool> {
        let used = self
            .shm
            .header()
            .rings_used
            .load(Ordering::Acquire)
            .min(RINGS as u32);
        let (mut schedules, mut turns) = (Vec::new(), 0);
        for i in (0..used).filter(|&i| self.readable(i) && self.shm.tape(i).is_schedule()) {
            let closing = self.gone(i);
            let mut bytes = Vec::new();
            self.shm.pull(i, |b| bytes.extend_from_slice(b));
            turns += bytes.len();
            schedules.push((i, closing, bytes));
        }
        let mut open = false;
        for i in (0..used)
            .filter(|&i| self.readable(i) && !self.shm.tape(i).is_schedule())
            .collect::<Vec<_>>()
        {
            let (tape, closing) = (self.shm.tape(i), self.gone(i));
            let (shm, writer) = (self.shm, &mut self.writer);
            let mut result = Ok(());
            shm.pull(i, |bytes| {
                if result.is_ok() {
                    // What these events refer to has been noted before they were logged.
                    result = writer.add_pieces(&crate::input::store::SHARED.of(&shm).take());
                }
                if result.is_ok() {
                    result = writer.append(tape, bytes);
                }
            });
            result.map_err(Failure::setup)?;
            if closing {
                let ring = self.shm.ring(i);
                self.tapes += 1;
                self.events += ring.events.load(Ordering::Acquire);
                self.ticks += ring.ticks.load(Ordering::Acquire);
            }
            open |= !self.close(i, closing)?;
        }
        if turns > MANY_TURNS {
            self.writer.flush_all().map_err(Failure::setup)?;
        }
        for (i, closing, bytes) in schedules {
            self.writer
                .append(self.shm.tape(i), &bytes)
                .map_err(Failure::setup)?;
            open |= !self.close(i, closing)?;
        }
        Ok(open)
    }

    fn readable(&self, i: u32) -> bool {
        matches!(
            self.shm.ring(i).state.load(Ordering::Acquire),
            state::ACTIVE | state::CLOSED
        )
    }

    /// Whether nothing more will come into a ring than is in it now.
    fn gone(&self, i: u32) -> bool {
        let ring = self.shm.ring(i);
        ring.state.load(Ordering::Acquire) == state::CLOSED
            || !alive(ring.pid.load(Ordering::Acquire))
    }

    /// Gives a ring back if its tape has ended.
    fn close(&mut self, i: u32, closing: bool) -> Result<bool> {
        if closing {
            self.writer
                .flush(self.shm.tape(i))
                .map_err(Failure::setup)?;
            self.shm.ring(i).state.store(state::FREE, Ordering::Release);
        }
        Ok(closing)
    }

    fn kill_all(&self) {
        for i in 0..self.shm.header().rings_used.load(Ordering::Acquire) {
            let ring = self.shm.ring(i);
            if ring.state.load(Ordering::Acquire) == state::ACTIVE {
                // SAFETY: a process of the recorded tree.
                unsafe { libc::kill(ring.pid.load(Ordering::Acquire) as i32, libc::SIGKILL) };
            }
        }
    }
}

/// One child that has ended.
pub(super) fn reap() -> Option<(i32, i32)> {
    let mut status = 0;
    // SAFETY: only fills the status.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (pid > 0).then_some((pid, status))
}
