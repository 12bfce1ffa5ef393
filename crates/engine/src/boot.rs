//! How a host process begins: what it is told, and the way from there to the first guest
//! instruction.
//!
//! A host process is this very executable, started with the guest's own arguments (so that
//! others see them in `/proc`) and one environment variable that names a descriptor with
//! the rest.

use std::convert::Infallible;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use relive_host::cpu::{self, Known, XsaveLayout};
use relive_host::signal;
use relive_host::signal::{KernelAction, Mask};
use relive_trace::{Image, Kind, Origin, Start, StreamFd, TapeId};

use crate::descriptor_limit::{self, Limit, Room};
use crate::failure::{Failure, Result, die};
use crate::kernel::leads::LEADS;
use crate::kernel::{leads, own};
use crate::loader::{self, Program};
use crate::machine::{Machine, count_translations, install, machine};
use crate::memfd;
use crate::memory::Memory;
use crate::mode::{HandedOn, Name};
use crate::modes::live;
use crate::modes::serial;
use crate::process::{Limits, Process, State};
use crate::reach::Reach;
use crate::registry::Threads;
use crate::shm::{Shm, share, shared};
use crate::signals::{SIG_IGN, Trap, host_disposition};
use crate::streams::Streams;
use crate::tape::{Tape, TapeOut};
use crate::task::Task;
use crate::wire::{Reader, Writer};
use crate::{image, modes, seccomp, stack_limit, stats, translations};

/// Names the descriptor of the start data in the environment of a host process.
pub const VARIABLE: &str = "RELIVE_BOOT";

/// What a host process is told.
pub struct Boot {
    /// What to do.
    pub mode: Name,
    /// The trace, absolute.
    pub trace: PathBuf,
    /// Where the shared memory is.
    pub supervisor: Option<(u32, u32)>,
    /// What the program was called by.
    pub called: Vec<u8>,
    /// Its canonical path.
    pub path: Vec<u8>,
    /// An inherited descriptor of its file; without one it is opened by its path.
    pub file: Option<i32>,
    /// Its arguments.
    pub argv: Vec<Vec<u8>>,
    /// Its environment.
    pub env: Vec<Vec<u8>>,
    /// What its mode begins with.
    pub handed_on: HandedOn,
    /// What goes on over exec; `None` for the first program.
    pub go_on: Option<Continuation>,
}

/// What a process keeps over exec.
pub struct Continuation {
    /// Index of the process.
    pub process: u32,
    /// Index of the thread that goes on.
    pub thread: u32,
    /// Index of the next thread.
    pub next_thread: u32,
    /// Ticks so far.
    pub ticks: u64,
    /// Signal mask.
    pub mask: u64,
    /// Ignored signals.
    pub ignored: u64,
    /// The thread's last fault, which exec keeps.
    pub trap: Trap,
    /// Limits that the engine keeps.
    pub limits: Limits,
    /// personality(2), which exec keeps.
    pub personality: u64,
    /// What prctl(2) `PR_SET_PDEATHSIG` has set, which exec keeps.
    pub death_signal: i32,
    /// Whether the thread is strictly confined, and otherwise its filters, the oldest first.
    pub confined: (bool, Vec<Vec<u8>>),
    /// Descriptors that lead to standard streams.
    pub streams: Vec<(i32, u8)>,
    /// What the old program's host knows of the processor.
    pub cpu: Known,
    /// What it knows of the kernel's vDSO ([`crate::vdso::found`]).
    pub vdso: Option<[u64; 2]>,
    /// What it has kept open, and the host's executable.
    pub reach: Option<(Reach, i32)>,
}

impl Boot {
    /// What the new host is told, and the limits that it gives back to itself.
    fn encode(&self, stack: Option<u64>, descriptors: Option<Limit>) -> Vec<u8> {
        let mut w = Writer::default();
        let (soft, hard) = descriptors.unwrap_or_default();
        w.num(descriptors.is_some().into()).num(soft).num(hard);
        w.num(stack.is_some().into()).num(stack.unwrap_or(0));
        w.num(self.mode as u64);
        w.bytes(self.trace.as_os_str().as_bytes());
        let (pid, fd) = self.supervisor.unwrap_or((0, 0));
        w.num(pid.into()).num(fd.into());
        w.num(self.file.map_or(0, |fd| fd as u64 + 1));
        w.bytes(&self.called)
            .bytes(&self.path)
            .list(&self.argv)
            .list(&self.env);
        let HandedOn {
            seed,
            ring,
            logged,
            schedule,
        } = self.handed_on;
        let (number, chaos) = seed.unwrap_or((0, false));
        w.num(seed.is_some().into())
            .num(number)
            .num(chaos.into())
            .num(ring.map_or(0, |r| r + 1).into())
            .num(logged)
            .num(schedule.map_or(0, |r| r + 1).into());
        w.num(self.go_on.is_some().into());
        if let Some(c) = &self.go_on {
            for v in [c.process, c.thread, c.next_thread] {
                w.num(v.into());
            }
            w.num(c.ticks).num(c.mask).num(c.ignored);
            w.num(c.trap.trapno).num(c.trap.err).num(c.trap.cr2);
            for (soft, hard) in [c.limits.space, c.limits.data] {
                w.num(soft).num(hard);
            }
            w.num(c.personality).num(c.death_signal as u64);
            w.num(c.confined.0.into()).list(&c.confined.1);
            w.num(c.streams.len() as u64);
            for &(fd, s) in &c.streams {
                w.num(fd as u64).num(s.into());
            }
            let Known { layout, intel } = c.cpu;
            w.num(layout.components).num(layout.size as u64);
            for (from, to) in layout.ranges {
                w.num(from as u64).num(to as u64);
            }
            w.num(layout.wide_masks.into()).num(intel.into());
            let [clock, cpu] = c.vdso.unwrap_or_default();
            w.num(c.vdso.is_some().into()).num(clock).num(cpu);
            w.num(c.reach.is_some().into());
            if let Some((reach, host)) = c.reach {
                w.num(reach.memory as u64).num(reach.copies as u64);
                w.num(reach.moved.into()).num(host as u64);
            }
        }
        w.0
    }

    /// What [`Boot::encode`] has made.
    fn decode(bytes: &[u8]) -> (Self, Option<u64>, Option<Limit>) {
        let mut r = Reader(bytes);
        let raised = r.num() != 0;
        let descriptors = Some((r.num(), r.num())).filter(|_| raised);
        let (lowered, stack) = (r.num() != 0, r.num());
        let mode = Name::ALL[r.num() as usize];
        let trace = PathBuf::from(std::ffi::OsString::from_vec(r.bytes()));
        let at = (r.num() as u32, r.num() as u32);
        let file = (r.num() as i32).checked_sub(1).filter(|&fd| fd >= 0);
        let (called, path, argv, env) = (r.bytes(), r.bytes(), r.list(), r.list());
        let (has, seed, chaos) = (r.num() != 0, r.num(), r.num() != 0);
        let handed_on = HandedOn {
            seed: has.then_some((seed, chaos)),
            ring: (r.num() as u32).checked_sub(1),
            logged: r.num(),
            schedule: (r.num() as u32).checked_sub(1),
        };
        let go_on = (r.num() != 0).then(|| Continuation {
            process: r.num() as u32,
            thread: r.num() as u32,
            next_thread: r.num() as u32,
            ticks: r.num(),
            mask: r.num(),
            ignored: r.num(),
            trap: Trap {
                trapno: r.num(),
                err: r.num(),
                cr2: r.num(),
            },
            limits: Limits {
                space: (r.num(), r.num()),
                data: (r.num(), r.num()),
            },
            personality: r.num(),
            death_signal: r.num() as i32,
            confined: (r.num() != 0, r.list()),
            streams: (0..r.num())
                .map(|_| (r.num() as i32, r.num() as u8))
                .collect(),
            cpu: Known {
                layout: XsaveLayout {
                    components: r.num(),
                    size: r.num() as usize,
                    ranges: std::array::from_fn(|_| (r.num() as usize, r.num() as usize)),
                    wide_masks: r.num() != 0,
                },
                intel: r.num() != 0,
            },
            vdso: {
                let there = r.num() != 0;
                let functions = [r.num(), r.num()];
                there.then_some(functions)
            },
            reach: (r.num() != 0).then(|| {
                let (memory, copies) = (r.num() as i32, r.num() as i32);
                let moved = r.num() != 0;
                let reach = Reach {
                    memory,
                    copies,
                    moved,
                };
                (reach, r.num() as i32)
            }),
        });
        let boot = Self {
            mode,
            trace,
            supervisor: (at.0 != 0).then_some(at),
            called,
            path,
            file,
            argv,
            env,
            handed_on,
            go_on,
        };
        (boot, lowered.then_some(stack), descriptors)
    }

    /// Replaces the calling process by a host process that does this. `shown` are the
    /// arguments that others see; `descriptors` is the guest's limit on open files, if it is not the
    /// one that holds now.
    ///
    /// # Errors
    /// The errno of a refusal.
    pub fn exec(
        &self,
        shown: &[Vec<u8>],
        descriptors: Option<Limit>,
    ) -> std::result::Result<Infallible, i32> {
        let stack = stack_limit::lower();
        let room = Room::make();
        let refused = self.exec_with(shown, stack, descriptors.or(room.before()));
        stack_limit::restore(stack);
        refused
    }

    fn exec_with(
        &self,
        shown: &[Vec<u8>],
        stack: Option<u64>,
        descriptors: Option<Limit>,
    ) -> std::result::Result<Infallible, i32> {
        let errno = |e: std::io::Error| e.raw_os_error().unwrap_or(libc::EIO);
        let data = memfd::with(&self.encode(stack, descriptors)).map_err(errno)?;
        let c = |b: &[u8]| CString::new(b).map_err(|_| libc::EINVAL);
        let argv = shown
            .iter()
            .map(|a| c(a))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let mut env = vec![c(format!("{VARIABLE}={}", data.as_raw_fd()).as_bytes())?];
        for (name, value) in std::env::vars_os() {
            if name.as_bytes().starts_with(b"RELIVE_") && name != VARIABLE {
                env.push(c(&[name.as_bytes(), b"=", value.as_bytes()].concat())?);
            }
        }
        let pointers = |v: &[CString]| {
            v.iter()
                .map(|s| s.as_ptr())
                .chain([std::ptr::null()])
                .collect::<Vec<_>>()
        };
        let (a, e) = (pointers(&argv), pointers(&env));
        let kept = self.go_on.as_ref().and_then(|c| c.reach);
        // SAFETY: both arrays end with a null and outlive the call.
        unsafe {
            match kept {
                // There may be no /proc any more, or another one.
                Some((_, host)) => libc::execveat(
                    host,
                    c"".as_ptr(),
                    a.as_ptr().cast(),
                    e.as_ptr().cast(),
                    libc::AT_EMPTY_PATH,
                ),
                None => libc::execve(c"/proc/self/exe".as_ptr(), a.as_ptr(), e.as_ptr()),
            }
        };
        Err(errno(std::io::Error::last_os_error()))
    }
}

/// The descriptor of the start data, if this process was started as a host.
#[must_use]
pub fn requested() -> Option<i32> {
    std::env::var(VARIABLE).ok()?.parse().ok()
}

/// Runs this process as a host. Does not return while the guest lives.
pub fn host_main(fd: i32) -> ! {
    crate::logging::init();
    crate::failure::report_panics();
    crate::failure::tell_by(tell_supervisor);
    let (boot, stack, descriptors) = Boot::decode(&memfd::drain(fd));
    stack_limit::restore(stack);
    match begin(boot, descriptors) {
        Ok(never) => match never {},
        Err(e) => die(&e),
    }
}

/// The first failure of a tree of processes is kept in the shared memory, for the supervisor to print.
fn tell_supervisor(text: &str) -> bool {
    // Nobody sees the memory of a guided replay.
    let shm = shared().filter(|_| !crate::modes::replay::is_guided());
    shm.inspect(|shm| shm.fail(text)).is_some()
}

fn begin(boot: Boot, descriptors: Option<Limit>) -> Result<Infallible> {
    if boot.mode == Name::Replay {
        crate::modes::replay::close_inherited()?;
    }
    match &boot.go_on {
        // The old program's host has looked: CPUID is slow where a hypervisor answers it.
        Some(c) => {
            cpu::adopt(c.cpu);
            crate::vdso::adopt(c.vdso);
        }
        None => cpu::check().map_err(|what| Failure::setup(format!("this machine lacks {what:?}: Relive needs Linux 5.9 or later and a processor with XSAVE and FSGSBASE")))?,
    }
    signal::on_host_fault(|sig, rip, addr| {
        die(&Failure::internal(format!(
            "signal {sig} in the host at {rip:#x} (address {addr:#x})"
        )))
    });
    set_name(&boot.called);
    let reach = boot.go_on.as_ref().and_then(|c| c.reach);
    if let Some((reach, _)) = reach {
        reach.adopt();
    }
    crate::sections::place();
    let found = match reach {
        Some((reach, _)) if reach.memory >= 0 => Some(Shm::inherited(reach.memory)?),
        Some(_) => None,
        None => boot.supervisor.map(Shm::find).transpose()?,
    };
    // A program that is only run uses it for its counters alone.
    let shm = found.filter(|_| boot.mode != Name::Run);
    if let Some(shm) = shm {
        share(shm);
    }
    let mut options = relive_dbt::Options::from_env();
    options.fd_floor = descriptor_limit::floor();
    own::begin_at(options.fd_floor);
    options.own_file = reach.map(|(_, host)| host);
    let go_on = boot.go_on.as_ref();
    let process = match (go_on, &shm) {
        (Some(c), _) => c.process,
        (None, Some(shm)) if boot.mode == Name::Serial => shm.new_process(),
        _ => 0,
    };
    let slot = go_on.map_or(0, |c| c.thread);
    let start = serial::Start {
        process,
        slot,
        goes_on: go_on.is_some(),
        handed_on: boot.handed_on,
    };
    let mode = modes::choose(boot.mode, shm, start)?;
    let traits = mode.traits();
    options.together = traits.together;
    let memory = Memory::new(options, !traits.confined)?;
    crate::vdso::prepare(traits.clocks);
    translations::attach();
    install(Machine {
        mode,
        name: boot.mode,
        memory: Mutex::new(memory),
        threads: Threads::default(),
        shm,
        trace: boot.trace.clone(),
    });
    if let Some(shm) = found {
        stats::attach(shm, traits.together, count_translations);
    }
    if boot.mode == Name::Replay {
        return crate::modes::replay::main();
    }
    machine().memory().translator.ask_for_memory(own_memory);
    run_program(boot, process, descriptors)
}

/// Opens this process's memory, in place of the descriptor that it has from the one that it was
/// forked from.
fn own_memory(old: i32, floor: i32) -> Option<i32> {
    let _room = Room::for_host(machine().mode.traits().keeps);
    relive_dbt::open_memory(old, floor)
}

/// Loads the program and runs it; while recording, its image is the first event.
fn run_program(boot: Boot, index: u32, descriptors: Option<Limit>) -> Result<Infallible> {
    let target = match boot.file {
        // SAFETY: the old program's host has left it open for this one.
        Some(fd) => unsafe { std::fs::File::from_raw_fd(fd) },
        None => std::fs::File::open(OsStr::from_bytes(&boot.path)).map_err(|e| {
            Failure::setup(format!(
                "cannot open {}: {e}",
                String::from_utf8_lossy(&boot.path)
            ))
        })?,
    };
    let program = Program {
        file: target,
        called: boot.called,
        path: boot.path,
        argv: boot.argv,
        env: boot.env,
    };
    let recording = machine().mode.traits().keeps;
    let identify = |file: &std::fs::File| {
        if recording {
            crate::kernel::keep(file).map_err(|e| die(&e))
        } else {
            loader::unkept(file)
        }
    };
    let mut loaded = loader::load(&program, &identify).map_err(|e| {
        Failure::setup(format!(
            "cannot load {}: {}",
            String::from_utf8_lossy(&program.path),
            std::io::Error::from_raw_os_error(e)
        ))
    })?;
    let pid = std::process::id();
    let (slot, next_thread) = boot
        .go_on
        .as_ref()
        .map_or((0, 1), |c| (c.thread, c.next_thread));
    let mut streams = boot.go_on.as_ref().map_or_else(Streams::standard, |c| {
        Streams::from_pairs(c.streams.iter().copied())
    });
    streams.retain(is_open);
    if boot.go_on.is_none() && recording {
        first_streams(&mut streams);
    }
    loaded.image.streams = streams
        .pairs()
        .map(|(fd, stream)| StreamFd {
            fd: fd as u32,
            stream,
        })
        .collect();
    let mut state = State::new(streams, program.path.clone(), &program.env);
    state.auxv = loader::shown_auxv(&loaded.image, &program);
    if let Some(c) = &boot.go_on {
        state.limits = c.limits;
        state.personality = c.personality;
        state.death_signal = c.death_signal;
        state.reach = c.reach.map(|(reach, _)| reach);
    }
    let process = Arc::new(Process::new(index, pid, next_thread, state));
    let tape = make_tape(&boot.handed_on, TapeId::new(index, slot), pid)?;
    let mut task = Box::new(Task::new(process, slot, pid, tape));
    set_signals(&mut task, boot.go_on.as_ref());
    task.seccomp = boot
        .go_on
        .as_ref()
        .and_then(|c| seccomp::Mode::decode(&c.confined));
    live::prepare_thread(&mut task);
    if let Some(c) = &boot.go_on {
        task.ctx.restart_ticks(c.ticks);
    } else {
        let start = Start {
            origin: Origin::Root,
            parent: task.id(),
            tid: pid,
            pid,
        };
        task.record(Kind::Start(start));
    }
    let image = loaded.image;
    if recording {
        record_image(&mut task, &image);
    }
    let files = loaded.files;
    translations::load(&mut machine().memory(), &program.path);
    image::apply(&image, &mut machine().memory(), &mut task.ctx, |id| {
        loader::descriptor(&files, id).ok_or_else(|| Failure::internal("an image names its files"))
    })?;
    drop((files, program.file, image));
    descriptor_limit::restore(descriptors);
    live::run(task);
    unreachable!("the first thread of a process ends by itself")
}

fn record_image(task: &mut Task, image: &Image) {
    let writes: usize = image.writes.iter().map(|(_, bytes)| bytes.len()).sum();
    let mut bytes = Vec::with_capacity(writes + 4096);
    image.encode(&mut bytes);
    task.record(Kind::Exec(&bytes));
}

/// The tape that the program goes on with, or a new one.
fn make_tape(handed_on: &HandedOn, id: TapeId, pid: u32) -> Result<Tape> {
    match (machine().shm, handed_on.ring) {
        (Some(shm), Some(ring)) => Ok(Tape::Out(TapeOut::attach(shm, ring, handed_on.logged))),
        _ => machine().mode.tape(id, pid),
    }
}

/// Signal actions as exec leaves them, for guest and host.
fn set_signals(task: &mut Task, go_on: Option<&Continuation>) {
    let (mask, ignored) = match go_on {
        Some(c) => (c.mask, c.ignored),
        None => inherited(),
    };
    task.signals.mask = Mask(mask);
    task.signals.trap = go_on.map(|c| c.trap).unwrap_or_default();
    let mut state = task.process.state();
    for sig in 1..=64 {
        if ignored >> (sig - 1) & 1 == 1 {
            state.actions[sig as usize] = KernelAction {
                handler: SIG_IGN,
                ..KernelAction::default()
            };
        }
        signal::set_disposition(sig, host_disposition(sig, &state.actions[sig as usize]));
    }
}

/// Mask and ignored signals as whoever started Relive left them.
fn inherited() -> (u64, u64) {
    let mask = signal::set_mask(Mask::all_async());
    let ignored = (1..=64)
        .filter(|&s| signal::is_ignored(s))
        .fold(0u64, |m, s| m | 1 << (s - 1));
    (mask.0, ignored)
}

/// The streams of a recording's first program: remembers where they lead, for a descriptor that
/// comes another way, and looks whether standard input leads there too (as a terminal does).
fn first_streams(streams: &mut Streams) {
    if let Some(shm) = &machine().shm {
        LEADS.of(shm).note();
    }
    if let Some(stream) = leads::stream(0) {
        streams.leads(0, stream);
    }
}

fn is_open(fd: i32) -> bool {
    // SAFETY: only asks.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Shows the guest's name as the thread's name.
fn set_name(called: &[u8]) {
    let base = called.rsplit(|&b| b == b'/').next().unwrap_or(called);
    if let Ok(name) = CString::new(base) {
        // SAFETY: reads at most 16 bytes of the string.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}
