//! The `relive` command: the user's input, and the output for the user.
//!
//! Recording and replaying are the engine's; the format on disk is the trace crate's. This
//! crate must never touch a guest, and never write to standard output or error while a
//! guest's own output goes there.

#![cfg_attr(not(test), no_main)]

mod args;
mod attempt;
mod attempts;
mod background_index;
mod backtrace;
mod calls;
mod command_line;
mod dap;
mod debug;
mod demo;
mod dump;
mod epoch;
mod escape;
mod explore;
mod finder;
mod format;
mod hunt;
mod index;
mod info;
mod instruction_sets;
mod interrupt;
mod keep;
mod last_write;
mod ls;
mod names;
mod output;
mod pack;
mod packed;
mod peer;
mod place;
mod progress;
mod query;
mod races;
mod record;
mod replay;
mod room;
mod rpc;
mod run;
mod scan;
mod shard;
mod split;
mod stats;
mod syscall;
mod traces;
mod travel;
mod unfinished;
mod unpack;
mod verify;

use relive_engine::supervisor::EndStatus;
use relive_engine::{EXIT_STATUS, Failure, FailureClass, allocator, boot, failure};

use args::Command;

/// The allocator of the command. Process-wide: there is one heap.
#[global_allocator]
static HEAP: allocator::Heap = allocator::Heap;

/// The C entry point: the Rust runtime's own start would open descriptors 0 to 2 where they
/// are closed, ignore SIGPIPE and take over SIGSEGV, all of which a guest would inherit.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn main() -> i32 {
    // A host process is this same executable: nothing may happen before this process is known not
    // to be one.
    if let Some(fd) = boot::requested() {
        boot::host_main(fd);
    }
    failure::report_panics();
    match args::parse().and_then(|command| execute(&command)) {
        Ok(status) => end_as(status),
        // As any filter, and silently. A caller that has SIGPIPE ignored gets the message.
        Err(failure) if failure.class() == FailureClass::Closed && !ignores_sigpipe() => {
            end_as(EndStatus::Signal(libc::SIGPIPE))
        }
        Err(failure) => {
            output::complain(&failure.to_string());
            std::process::exit(EXIT_STATUS);
        }
    }
}

/// Ends this process as a program has ended.
fn end_as(status: EndStatus) -> ! {
    match status {
        EndStatus::Code(code) => std::process::exit(code),
        EndStatus::Signal(signal) => relive_engine::die_of(signal),
    }
}

/// Whether SIGPIPE was ignored when this process was started.
fn ignores_sigpipe() -> bool {
    // SAFETY: plain numbers, for which all zeros are a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: sets nothing, only fills the structure.
    unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    action.sa_sigaction == libc::SIG_IGN
}

/// Executes a command; returns how this process is to end.
fn execute(command: &Command) -> Result<EndStatus, Failure> {
    match command {
        Command::Record(args) => record::execute(args),
        Command::Replay(args) => replay::execute(args),
        Command::Verify(args) => verify::execute(args),
        Command::Hunt(args) => hunt::execute(args),
        Command::Explore(args) => explore::execute(args),
        Command::Run(args) => run::execute(args),
        Command::Pack(args) => pack::execute(args),
        Command::Unpack(args) => unpack::execute(args),
        Command::Ls(args) => ls::execute(args),
        Command::Info(args) => info::execute(args),
        Command::Index(args) => index::execute(args),
        Command::Keep(args) => keep::execute(args),
        Command::Split(args) => split::execute(args),
        Command::Dump(args) => dump::execute(args),
        Command::Rpc(command) => rpc::execute(command),
        Command::Demo => demo::execute(),
        Command::Debug(args) => debug::execute(args),
        Command::Dap(args) => dap::execute(args),
        Command::Backtrace(args) => backtrace::execute(args),
        Command::LastWrite(args) => last_write::execute(args),
        Command::Races(args) => races::execute(args),
        Command::Calls(args) => calls::execute(args),
        Command::Travel(args) => travel::execute(args),
        Command::Attempt(args) => attempt::execute(args),
        Command::Epoch(args) => epoch::execute(args),
        Command::Epochs(args) => finder::execute(args),
    }
}
