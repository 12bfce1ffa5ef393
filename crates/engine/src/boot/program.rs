//! Loading the program of a guest process: its image, and its first thread as exec leaves it.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;

use relive_host::signal::{self, Mask};
use relive_trace::{Image, Kind, Origin, Start, StreamFd, TapeId};

use crate::descriptor;
use crate::descriptor_limit::{self, Limit};
use crate::failure::{Failure, Result};
use crate::inherit::ProgramView;
use crate::kernel::stream_aliases;
use crate::loader::{self, Program, Refusal};
use crate::machine::Machine;
use crate::mode::HandedOn;
use crate::modes::live;
use crate::process::Process;
use crate::process::state::ProcessState;
use crate::sigaction::SIG_IGN;
use crate::start_data::{Boot, Continuation};
use crate::streams::Streams;
use crate::task::Task;
use crate::task::plain_task::TaskState;
use crate::{image, translations};

/// Loads the program and runs it.
///
/// # Errors
/// It cannot be loaded.
pub fn run(
    machine: &'static Machine,
    boot: Boot,
    index: u32,
    descriptors: Option<Limit>,
) -> Result<Infallible> {
    let mut task = load(machine, boot, index, live::prepare_thread)?;
    descriptor_limit::restore(descriptors);
    crate::ptrace::newcomers::after_exec(&mut task);
    live::run(task, Ok(()));
    unreachable!("the first thread of a process ends by itself")
}

/// The environment of a first program whose functions are bound when it starts. A function that is bound at its first
/// call is bound by plain stores, and other threads find it so by plain loads: in a recording of threads that run
/// together nothing would order them (ld.so(8)).
/// Later programs get the environment that their callers give them.
fn bound_at_start(mut env: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    const NOW: &[u8] = b"LD_BIND_NOW=";
    if !env.iter().any(|variable| variable.starts_with(NOW)) {
        env.push([NOW, b"1"].concat());
    }
    env
}

/// Loads the program of process `index`, up to its first instruction; while recording, its image is the
/// first event. `prepare` gets the calling host thread ready for the task.
fn load(
    machine: &'static Machine,
    boot: Boot,
    index: u32,
    prepare: impl FnOnce(&mut Task) -> Result<()>,
) -> Result<Box<Task>> {
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
    let together = machine.mode.traits().together;
    let program = Program {
        file: target,
        called: boot.called,
        path: boot.path,
        argv: boot.argv,
        env: match boot.go_on.is_none() && machine.mode.traits().keeps && together {
            true => bound_at_start(boot.env),
            false => boot.env,
        },
    };
    let recording = machine.mode.traits().keeps;
    let identify = |file: &std::fs::File| {
        if recording {
            Ok(crate::kernel::mapped::keep(machine, file)?)
        } else {
            loader::unkept(file)
        }
    };
    let mut loaded = loader::load(&program, &identify).map_err(|e| match e {
        Refusal::Failed(failure) => failure,
        Refusal::Errno(e) => Failure::setup(format!(
            "cannot load {}: {}",
            String::from_utf8_lossy(&program.path),
            std::io::Error::from_raw_os_error(e)
        )),
    })?;
    let mut task = first_thread(
        machine,
        boot.go_on,
        &boot.handed_on,
        index,
        &program,
        &mut loaded.image,
        prepare,
    )?;
    let image = loaded.image;
    if recording {
        record_image(&mut task, &image)?;
    }
    let files = loaded.files;
    translations::load(&mut machine.memory(), &program.path);
    image::apply(&image, &mut machine.memory(), &mut task.ctx, |id| {
        loader::descriptor(&files, id).ok_or_else(|| Failure::internal("an image names its files"))
    })?;
    machine.mode.program_begins(&task);
    Ok(task)
}

/// The thread that begins the program, with its process, as exec leaves them, but for memory and
/// registers. The standard streams that are open become part of the image.
fn first_thread(
    machine: &'static Machine,
    go_on: Option<Continuation>,
    handed_on: &HandedOn,
    index: u32,
    program: &Program,
    image: &mut Image,
    prepare: impl FnOnce(&mut Task) -> Result<()>,
) -> Result<Box<Task>> {
    let pid = std::process::id();
    let first = go_on.is_none();
    let (thread, process) = match go_on {
        Some(c) => (c.task, c.process),
        None => inherited(index, pid),
    };
    image.streams = open_streams(machine, &process.state.streams, first);
    let process = Process::restore(
        process.after_exec(ProgramView {
            exe: program.path.clone(),
            environ: program
                .env
                .iter()
                .flat_map(|e| [e, &b"\0"[..]].concat())
                .collect(),
            auxv: loader::shown_auxv(image, program),
            streams: image.streams.clone(),
        }),
    );
    let id = TapeId::new(index, thread.index);
    let tape = machine.mode.tape(id, handed_on)?;
    let mut task = Box::new(Task::new(machine, process, thread.index, pid, tape));
    task.restore(thread.after_exec(pid, &program.path));
    task.show_actions();
    prepare(&mut task)?;
    if first {
        let start = Start {
            origin: Origin::Root,
            parent: task.id(),
            tid: pid,
            pid,
        };
        task.record(Kind::Start(start))?;
    }
    Ok(task)
}

/// The descriptors of the standard streams that exec has left open.
fn open_streams(machine: &Machine, known: &Streams, first: bool) -> Vec<StreamFd> {
    let mut streams = known.clone();
    streams.retain(|fd| descriptor::flags(fd).is_some());
    if first && machine.mode.traits().keeps {
        first_streams(machine, &mut streams);
    }
    let pairs = streams.pairs();
    pairs
        .map(|(fd, stream)| StreamFd {
            fd: fd as u32,
            stream,
        })
        .collect()
}

fn record_image(task: &mut Task, image: &Image) -> Result<()> {
    let writes: usize = image.writes.iter().map(|(_, bytes)| bytes.len()).sum();
    let mut bytes = Vec::with_capacity(writes + 4096);
    image.encode(&mut bytes);
    task.record(Kind::Exec(&bytes))
}

/// A thread and a process as Relive's own parent left them: mask and ignored signals.
fn inherited(index: u32, pid: u32) -> (TaskState, ProcessState) {
    let (mut task, mut process) = (TaskState::new(0, pid), ProcessState::new(index, pid));
    task.signals.mask = signal::set_mask(Mask::all_async());
    for sig in (1..=64).filter(|&sig| signal::is_ignored(sig)) {
        process.state.actions[sig as usize].handler = SIG_IGN;
    }
    (task, process)
}

/// The streams of a recording's first program: remembers where they lead, for a descriptor that
/// comes another way, and looks whether standard input leads there too (as a terminal does).
fn first_streams(machine: &Machine, streams: &mut Streams) {
    if let Some(shm) = &machine.shm {
        crate::kernel::stream_aliases::STREAM_ALIASES.of(shm).note();
    }
    if let Some(stream) = stream_aliases::stream(machine, 0) {
        streams.leads(0, stream);
    }
}

#[cfg(test)]
mod tests;
