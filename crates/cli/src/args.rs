//! The command line: every option and its help, which `docs/cli.md` repeats.

mod exploring;
mod flip;
mod guest;
mod recording;
mod replaying;
mod rpc;
mod stats;
mod texts;
mod traces;
mod values;

use std::io::{self, Write};

use clap::{Parser, Subcommand};
use relive_engine::Failure;

pub use exploring::{EpochArgs, EpochsArgs, ExploreArgs};
pub use flip::FlipArg;
pub use recording::{AttemptArgs, HuntArgs, HuntMode, RecordArgs, RecordMode, RunArgs};
pub use replaying::{
    BacktraceArgs, CallsArgs, DapArgs, DebugArgs, LastWriteArgs, RacesArgs, ReplayArgs, TravelArgs,
    VerifyArgs,
};
pub use rpc::{RpcArgs, RpcCausalityArgs, RpcCommand, RpcDiffArgs, RpcDumpArgs};
pub use stats::StatsFormat;
use texts::*;
pub use traces::{
    DumpArgs, IndexArgs, InfoArgs, KeepArgs, LsArgs, PackArgs, SplitArgs, UnpackArgs,
};
pub use values::Function;

use crate::output;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "relive", version, about = "Record a Linux program once, replay it exactly", long_about = TOP)]
#[command(after_help = TOP_AFTER, max_term_width = 90, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
// Only the command asked for is built: all take a third of a millisecond. The text set
// last wins: structs of arguments have no documentation comment, which would be the command's.
#[command(defer = true)]
pub enum Command {
    /// Run a program and record it
    #[command(long_about = RECORD, after_help = RECORD_AFTER)]
    Record(RecordArgs),
    /// Replay a recording
    #[command(long_about = REPLAY, after_help = REPLAY_AFTER)]
    Replay(ReplayArgs),
    /// Replay a recording quietly and check it all the way
    #[command(long_about = VERIFY)]
    Verify(VerifyArgs),
    /// Record a program under varied schedules until it fails
    #[command(long_about = HUNT, after_help = HUNT_AFTER)]
    Hunt(HuntArgs),
    /// Search the orders of threads: that of a sketch, or a failing one
    #[command(long_about = EXPLORE, after_help = EXPLORE_AFTER)]
    Explore(ExploreArgs),
    /// Run a program translated, without recording
    #[command(long_about = RUN, after_help = RUN_AFTER)]
    Run(RunArgs),
    /// Debug a recording with gdb, forwards and backwards
    #[command(long_about = DEBUG, after_help = DEBUG_AFTER)]
    Debug(DebugArgs),
    /// Serve an editor that debugs a recording (Debug Adapter Protocol)
    #[command(long_about = DAP, after_help = DAP_AFTER)]
    Dap(DapArgs),
    /// Show call stacks with files and lines
    #[command(long_about = BACKTRACE, after_help = BACKTRACE_AFTER)]
    Backtrace(BacktraceArgs),
    /// Find who wrote to memory last
    #[command(long_about = LAST_WRITE, after_help = LAST_WRITE_AFTER)]
    LastWrite(LastWriteArgs),
    /// Find data races: accesses of threads that nothing orders
    #[command(long_about = RACES, after_help = RACES_AFTER)]
    Races(RacesArgs),
    /// List the calls of a function
    #[command(long_about = CALLS, after_help = CALLS_AFTER)]
    Calls(CallsArgs),
    /// Let debuggers open a long recording at its end at once
    #[command(long_about = INDEX, after_help = INDEX_AFTER)]
    Index(IndexArgs),
    /// Keep what a flight recording that runs has by now
    #[command(long_about = KEEP, after_help = KEEP_AFTER)]
    Keep(KeepArgs),
    /// Make a part of a recording a recording of its own
    #[command(long_about = SPLIT, after_help = SPLIT_AFTER)]
    Split(SplitArgs),
    /// Pack a recording into one file for another machine
    #[command(long_about = PACK, after_help = PACK_AFTER)]
    Pack(PackArgs),
    /// Unpack a packed recording
    #[command(long_about = UNPACK)]
    Unpack(UnpackArgs),
    /// List the recordings
    #[command(long_about = LS)]
    Ls(LsArgs),
    /// Show the facts of one recording
    #[command(long_about = INFO)]
    Info(InfoArgs),
    /// Print the events of a recording
    #[command(long_about = DUMP, after_help = DUMP_AFTER)]
    Dump(DumpArgs),
    /// Look at a recording of requests, made with the library relive-rpc
    #[command(subcommand, long_about = RPC, after_help = RPC_AFTER)]
    Rpc(RpcCommand),
    /// Record and replay a small program with a real race
    #[command(long_about = DEMO)]
    Demo,
    /// Move along a recording by orders from standard input
    #[command(hide = true)]
    Travel(TravelArgs),
    /// One run of a hunt, as a process of its own
    #[command(hide = true)]
    Attempt(AttemptArgs),
    /// The search for the order of one epoch, as a process of its own
    #[command(hide = true)]
    Epoch(EpochArgs),
    /// The search for the order of all epochs of a recording that runs
    #[command(hide = true)]
    Epochs(EpochsArgs),
}

/// Reads the command line. A wrong one ends the process with status 2, and one that asks for help with 0.
///
/// # Errors
/// The help cannot be written.
pub fn parse() -> Result<Command, Failure> {
    match Cli::try_parse() {
        Ok(cli) => Ok(cli.command),
        Err(wrong) if wrong.use_stderr() => wrong.exit(),
        Err(help) => {
            output::written(help.print().and_then(|()| io::stdout().flush()))?;
            std::process::exit(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_words_of_the_guest_are_its_own() {
        for (line, expected) in [
            (
                &["prog", "-o", "x", "--help"][..],
                &["prog", "-o", "x", "--help"][..],
            ),
            (&["-o", "dir", "prog", "--chaos"], &["prog", "--chaos"]),
            (&["--", "prog", "--", "-n"], &["prog", "--", "-n"]),
            (&["prog", "--", "-n"], &["prog", "--", "-n"]),
            (&["--chaos", "prog"], &["prog"]),
            (&["--chaos=z", "--", "prog"], &["prog"]),
            (&["-odir", "prog", "-j2"], &["prog", "-j2"]),
        ] {
            let cli = Cli::try_parse_from(["relive", "record"].iter().chain(line)).unwrap();
            let Command::Record(args) = cli.command else {
                panic!("{line:?}")
            };
            assert_eq!(args.guest.words, expected, "{line:?}");
        }
        for line in [&["--chaso", "prog"][..], &["-x2", "prog"], &["--", "-x"]] {
            let parsed = Cli::try_parse_from(["relive", "record"].iter().chain(line));
            assert_eq!(parsed.is_ok(), line[0] == "--", "{line:?}");
        }
        let hunted = Cli::try_parse_from(["relive", "hunt", "-j2", "-n20", "prog", "-j3"]);
        let Ok(Command::Hunt(args)) = hunted.map(|cli| cli.command) else {
            panic!("short options with their values");
        };
        assert_eq!((args.jobs, args.max), (2, 20));
        assert_eq!(args.guest.words, ["prog", "-j3"]);
    }
}
