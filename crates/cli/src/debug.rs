//! `relive debug`: gdb over a recording, or a server for any front end.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_engine::timeline::{ReplayProcess, follow};
use relive_gdb::{Address, Options, Server, ThreadLocal};

use crate::args::DebugArgs;
use crate::names::ReplayedGuest;
use crate::{background_index, interrupt, names, output, pack, peer, traces};

/// Debugs a recording.
///
/// # Errors
/// No such recording or process, no gdb, or any failure of the replay.
pub fn execute(args: &DebugArgs) -> Result<EndStatus, Failure> {
    let trace = traces::open_to_replay(args.trace.trace.as_deref())?;
    let options = Options {
        trace: trace.directory(),
        follow: follow(&trace, traces::process(&trace, args.process, args.at)?)?,
        at: args.at,
        locate: thread_local,
    };
    if !args.no_index {
        background_index::begin(&trace);
    }
    match &args.serve {
        Some(address) => serve(&options, address.clone().unwrap_or_default()),
        None => start(args, &options),
    }
}

fn serve(options: &Options<'_>, address: Address) -> Result<EndStatus, Failure> {
    // Messages about clients may go unread: a closed standard error ends no server.
    // SAFETY: a disposition of this process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let mut server = Server::start(options, &address, peer::admit)?;
    tell(&mut server);
    output::complain(&format!(
        "waiting for a debugger: target extended-remote {}",
        server.address()
    ));
    server.serve()?;
    Ok(EndStatus::Code(0))
}

fn tell(server: &mut Server) {
    for line in server.take_news() {
        output::complain(&line);
    }
}

/// gdb's definitions of Relive's commands.
const COMMANDS: &str = include_str!("commands.gdb");

/// Starts gdb on a socket in a private folder, and serves it.
fn start(args: &DebugArgs, options: &Options<'_>) -> Result<EndStatus, Failure> {
    let no = |e: std::io::Error| {
        let temporary = std::env::temp_dir();
        let text = format!(
            "nothing can be written in {}: {e}; TMPDIR says another folder",
            temporary.display()
        );
        Failure::setup(text)
    };
    let folder = tempfile::Builder::new()
        .prefix("relive-debug-")
        .tempdir()
        .map_err(no)?;
    let socket = folder.path().join("gdb");
    let commands = folder.path().join("commands");
    std::fs::write(&commands, COMMANDS).map_err(no)?;
    let mut server = Server::start(options, &Address::Unix(socket.clone()), peer::admit)?;
    tell(&mut server);
    // The keyboard's interrupt is gdb's.
    // SAFETY: a disposition of this process; gdb gets the default back.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    let mut connect = OsString::from("target extended-remote ");
    connect.push(&socket);
    let mut command = Command::new(&args.gdb);
    // The recording's own debug information takes precedence over this machine's.
    let brought = options.trace.join(names::DEBUG);
    if brought.is_dir() {
        let own = "/usr/lib/debug";
        let both = format!("set debug-file-directory {}:{own}", brought.display());
        command.args(["-iex", &both]);
    }
    let sources = options.trace.join(pack::SOURCES);
    if sources.is_dir() {
        command
            .arg("-iex")
            .arg(format!("directory {}", sources.display()));
    }
    command
        .args(["-q", "-iex", "set confirm off"])
        .args(["-iex", "set sysroot target:", "-ix"])
        .arg(&commands)
        .arg("-ex")
        .arg(connect)
        .args(&args.args);
    // SAFETY: signal(2) and prctl(2) may be called between fork and exec.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut command, || {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            // It has no use for a terminal without its server.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        })
    };
    end_gdb_first();
    let mut gdb = command.spawn().map_err(|e| {
        Failure::setup(format!(
            "cannot start {}: {e}; install gdb, or use --serve",
            args.gdb.to_string_lossy()
        ))
    })?;
    GDB.store(gdb.id() as i32, Ordering::Relaxed);
    let asked = || ASKED.load(Ordering::Relaxed);
    let served = server.serve_while(&mut || asked() == 0 && matches!(gdb.try_wait(), Ok(None)));
    if asked() != 0 {
        // It may have come before there was a gdb.
        // SAFETY: a child that is not waited for yet.
        unsafe { libc::kill(gdb.id() as i32, libc::SIGTERM) };
    } else if served.is_err() {
        // gdb has no server any more.
        let _ = gdb.kill();
    }
    let status = gdb.wait().map_err(Failure::setup)?;
    GDB.store(0, Ordering::Relaxed);
    served?;
    Ok(match asked() {
        0 => EndStatus::from_wait(status.into_raw()),
        signal => EndStatus::Signal(signal),
    })
}

/// The gdb that is served; 0: none. Process-wide: a signal handler reads it.
static GDB: AtomicI32 = AtomicI32::new(0);
/// The signal by which this process has been asked to end; 0: none. Process-wide: a signal handler writes it.
static ASKED: AtomicI32 = AtomicI32::new(0);

/// A signal that asks this process to end ends gdb; then this process removes its folder, and ends by the signal.
fn end_gdb_first() {
    extern "C" fn note(signal: i32) {
        ASKED.store(signal, Ordering::Relaxed);
        let gdb = GDB.load(Ordering::Relaxed);
        if gdb != 0 {
            // SAFETY: kill(2) may be called in a handler.
            unsafe { libc::kill(gdb, libc::SIGTERM) };
        }
    }
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler stores to an atomic and calls kill(2), which signal-safety(7) allows.
        unsafe { interrupt::handle(signal, note) };
    }
}

/// The address of a thread-local variable.
fn thread_local(host: &mut ReplayProcess, trace: &Path, wanted: ThreadLocal) -> Option<u64> {
    let space = names::space_of(host, trace);
    let ThreadLocal {
        bias,
        pointer,
        offset,
    } = wanted;
    space
        .thread_local(&mut ReplayedGuest(host), bias, pointer, offset)
        .ok()
}
