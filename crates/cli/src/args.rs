//! The command line: every option and its help, which `docs/cli.md` repeats.

mod rpc;
mod texts;
mod values;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use relive_gdb::{Address, At};
use relive_sched::Seed;

pub use rpc::{RpcArgs, RpcCausalityArgs, RpcCommand, RpcDiffArgs, RpcDumpArgs};
use texts::*;
use values::duration;
pub use values::{Function, GuestAddress};

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
// Only what is asked for is built: all of it takes a third of a millisecond. What is built
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
    /// Run a program translated, without recording
    #[command(long_about = RUN)]
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
    /// List the calls of a function
    #[command(long_about = CALLS, after_help = CALLS_AFTER)]
    Calls(CallsArgs),
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
}

// The guest program and its own arguments.
#[derive(Debug, Args)]
pub struct Guest {
    /// The program and its arguments, passed on as they are
    #[arg(
        value_name = "PROGRAM [ARGS]",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

impl Guest {
    /// The program as it was given.
    pub fn program(&self) -> &OsStr {
        &self.words[0]
    }

    /// Its arguments.
    pub fn args(&self) -> &[OsString] {
        &self.words[1..]
    }
}

/// How threads run while they are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RecordMode {
    /// One at a time: every replay is exact
    Serial,
    /// On all cores; the order of atomic instructions and of calls is logged, and a replay finds the rest
    Sketch,
}

// Arguments of `record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// New or empty folder for the trace
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// How the threads of a process run while they are recorded
    #[arg(long, value_name = "MODE", value_enum, default_value_t = RecordMode::Serial)]
    pub mode: RecordMode,
    /// Vary the schedule to expose bugs; the seed, random or given, is printed on standard error
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true)]
    pub chaos: Option<Option<Seed>>,
    #[command(flatten)]
    pub stats: StatsArgs,
    #[command(flatten)]
    pub guest: Guest,
}

// Whether and how to say what was done.
#[derive(Debug, Clone, Copy, Args)]
pub struct StatsArgs {
    /// At the end, say on standard error what was done: fragments translated, exits by reason,
    /// system calls, events, bytes; as text or json
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text", hide_possible_values = true)]
    pub stats: Option<StatsFormat>,
}

/// How statistics are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatsFormat {
    /// One number in a line.
    Text,
    /// One object in one line.
    Json,
}

// Arguments of the commands that need nothing but a trace.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Name or folder of the trace [default: the latest]
    pub trace: Option<PathBuf>,
}

// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Show output from where so many events of the process have happened, or another PLACE
    #[arg(long, value_name = "PLACE", conflicts_with = "stats")]
    pub from: Option<At>,
    /// Stop where so many events of the process have happened, or at another PLACE
    #[arg(long, value_name = "PLACE", conflicts_with = "stats")]
    pub to: Option<At>,
    /// With --from or --to, which process: its index in the recording [default: 0]
    #[arg(short, long, value_name = "N", conflicts_with = "stats")]
    pub process: Option<u32>,
    #[command(flatten)]
    pub stats: StatsArgs,
}

// Arguments of `debug`.
#[derive(Debug, Args)]
pub struct DebugArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Where to begin: start, end, crash, where so many events of the process have happened, or a
    /// position EVENT:TICK
    #[arg(long, value_name = "PLACE", default_value = "start")]
    pub at: At,
    /// Which process: its index in the recording [default: 0; with --at crash the one that died]
    #[arg(short, long, value_name = "N")]
    pub process: Option<u32>,
    /// Do not start gdb: wait for clients there [default: a free port of the loopback interface]
    #[arg(long, value_name = "PORT|ADDR:PORT|unix:PATH", num_args = 0..=1)]
    pub serve: Option<Option<Address>>,
    /// The gdb to start
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "gdb",
        conflicts_with = "serve"
    )]
    pub gdb: OsString,
    /// Arguments for gdb
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<OsString>,
}

// Arguments of `dap`.
#[derive(Debug, Args)]
pub struct DapArgs {
    /// Wait for one editor on this port of the loopback interface; 0 for any that is free
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

// Arguments of `backtrace`.
#[derive(Debug, Args)]
pub struct BacktraceArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Where: start, end, crash, where so many events of the process have happened, or a position
    /// EVENT:TICK
    #[arg(long, value_name = "PLACE", default_value = "end")]
    pub at: At,
    /// Which process: its index in the recording [default: 0; with --at crash the one that died]
    #[arg(short, long, value_name = "N")]
    pub process: Option<u32>,
    /// All threads, not only the one whose turn it is
    #[arg(short, long)]
    pub all: bool,
    /// Print an object
    #[arg(long)]
    pub json: bool,
}

// Arguments of `last-write`.
#[derive(Debug, Args)]
pub struct LastWriteArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Address of the memory
    #[arg(
        long,
        value_name = "ADDR",
        required_unless_present = "var",
        conflicts_with = "var"
    )]
    pub addr: Option<GuestAddress>,
    /// A variable or a part of one, as total, bank.c:total, ns::Class::member,
    /// config.limits[3].max or *ptr->field
    #[arg(long, value_name = "NAME")]
    pub var: Option<String>,
    /// Bytes of it [default: the variable's size, or 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub len: Option<u64>,
    /// Before that many events of the process have happened, or another PLACE [default: where --at
    /// says, or its end]
    #[arg(long, value_name = "PLACE")]
    pub before: Option<At>,
    /// Where to look at the variable: start, end, crash, where so many events have happened, or a
    /// position EVENT:TICK; its frame's local variables are known too [default: where --before says]
    #[arg(long, value_name = "PLACE")]
    pub at: Option<At>,
    /// Which frame's local variables, counted from 0 as in relive backtrace
    #[arg(long, value_name = "N")]
    pub frame: Option<usize>,
    /// Which thread's: its index in the process [default: the one whose turn it is]
    #[arg(short, long, value_name = "N")]
    pub thread: Option<u32>,
    /// Which process: its index in the recording [default: 0; with --at crash the one that died]
    #[arg(short, long, value_name = "N")]
    pub process: Option<u32>,
    /// Print an object, or null
    #[arg(long)]
    pub json: bool,
}

// Arguments of `calls`.
#[derive(Debug, Args)]
pub struct CallsArgs {
    /// Its name, or the address of its first instruction
    pub function: Function,
    /// Name or folder of the trace [default: the latest]
    pub trace: Option<PathBuf>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max: u64,
    /// Which process: its index in the recording
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub process: u32,
    /// Print one object for each call
    #[arg(long)]
    pub json: bool,
}

// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Take a checksum of memory every so many events of each process; without it every 500,
    /// or so that the longest recording gets a few hundred
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    #[command(flatten)]
    pub stats: StatsArgs,
}

// Arguments of `hunt`.
#[derive(Debug, Args)]
pub struct HuntArgs {
    /// Give up after so many runs
    #[arg(short = 'n', long = "max", value_name = "MAX", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub max: u32,
    /// A run that takes longer has failed: seconds, or with unit (500ms, 10s, 5m); 0 for no limit
    #[arg(long, value_name = "T", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub stats: StatsArgs,
    #[command(flatten)]
    pub guest: Guest,
}

// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub stats: StatsArgs,
    #[command(flatten)]
    pub guest: Guest,
}

// Arguments of `pack`.
#[derive(Debug, Args)]
pub struct PackArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// The new file [default: the recording's name, with .tar.zst]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Leave source files out
    #[arg(long)]
    pub no_sources: bool,
}

// Arguments of `unpack`.
#[derive(Debug, Args)]
pub struct UnpackArgs {
    /// The packed recording
    pub file: PathBuf,
    /// New folder for the recording
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Unpack it even if it becomes very much larger
    #[arg(long)]
    pub any_size: bool,
}

// Arguments of `ls`.
#[derive(Debug, Args)]
pub struct LsArgs {
    /// Print an array of objects
    #[arg(long)]
    pub json: bool,
}

// Arguments of `info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Print an object
    #[arg(long)]
    pub json: bool,
}

// Arguments of `dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Only this process: its index in the recording, 0 is the first
    #[arg(short, long, value_name = "N")]
    pub process: Option<u32>,
    /// Only this thread of each process: its index in the process, 0 is the first
    #[arg(short, long, value_name = "N")]
    pub thread: Option<u32>,
    /// From the event of this index on each tape
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    pub from: u64,
    /// Up to the event of this index on each tape, and with it
    #[arg(long, value_name = "INDEX")]
    pub to: Option<u64>,
    /// Print one object for each event
    #[arg(long)]
    pub json: bool,
}

// Arguments of the hidden `travel`.
#[derive(Debug, Args)]
pub struct TravelArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    #[arg(long, default_value_t = 0)]
    pub process: u32,
}

// Arguments of the hidden `attempt`.
#[derive(Debug, Args)]
pub struct AttemptArgs {
    #[arg(long)]
    pub trace: PathBuf,
    #[arg(long)]
    pub seed: Option<Seed>,
    #[arg(long)]
    pub timeout_ms: Option<u64>,
    #[arg(long)]
    pub stats: bool,
    #[arg(long, value_delimiter = ',')]
    pub sites: Vec<u64>,
    #[command(flatten)]
    pub guest: Guest,
}

impl Command {
    fn guest(&self) -> Option<(&'static str, &Guest)> {
        match self {
            Self::Record(args) => Some(("record", &args.guest)),
            Self::Hunt(args) => Some(("hunt", &args.guest)),
            Self::Run(args) => Some(("run", &args.guest)),
            _ => None,
        }
    }
}

/// Reads the command line; a wrong one ends the process with status 2.
pub fn parse() -> Command {
    let command = Cli::parse().command;
    // The guest's words may be anything, so a mistyped option of ours would become the program.
    if let Some((name, guest)) = command.guest()
        && guest.program().as_bytes().starts_with(b"-")
    {
        let program = guest.program().to_string_lossy();
        let text =
            format!("unexpected argument '{program}' (a program of that name is './{program}')");
        let mut cli = Cli::command();
        cli.build();
        match cli.find_subcommand_mut(name) {
            Some(subcommand) => subcommand.error(ErrorKind::UnknownArgument, text).exit(),
            None => cli.error(ErrorKind::UnknownArgument, text).exit(),
        }
    }
    command
}

#[cfg(test)]
mod tests {
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
        ] {
            let cli = Cli::try_parse_from(["relive", "record"].iter().chain(line)).unwrap();
            let Command::Record(args) = cli.command else {
                panic!("{line:?}")
            };
            assert_eq!(args.guest.words, expected, "{line:?}");
        }
    }
}
