//! The command line: every option and its help, which `docs/cli.md` repeats.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use relive_gdb::{Address, At};
use relive_sched::Seed;

const TOP: &str = "\
Record a run of a Linux program once, and replay it exactly, as often as you like.

The program needs no change, no recompilation and no special rights. The replay executes the \
same instructions of all its threads and processes in the same order, with the same results of \
every system call.";

const TOP_AFTER: &str = "\
Examples:
  relive record ./server --port 80   record a run
  relive replay                      replay it, with the same output and exit status
  relive hunt ./flaky-test           record until the test fails, and keep that run
  relive demo                        see it work on a small program with a real race

Exit status:
  that of the program, for record, replay and run
  2    the command line is wrong
  125  Relive cannot go on; one sentence on standard error says why

Environment:
  RELIVE_TRACE_DIR  the folder for recordings; without it relive in $XDG_DATA_HOME, or
                    ~/.local/share/relive
  RELIVE_CACHE_DIR  the folder for translations of programs, which make their next start
                    faster; without it relive in $XDG_CACHE_HOME, or ~/.cache/relive; empty:
                    nothing is kept";

const RECORD: &str = "\
Run a program and record it, with every process that it starts.

The program has the terminal, standard input, output and error for itself, and relive ends as \
it ends: with its exit status, or of the same signal. Relive itself prints nothing, but for \
one line at the end if standard error is a terminal.

Without -o the trace gets a number in the folder for recordings, and becomes the latest: the \
one that other commands take when no trace is named.";

const RECORD_AFTER: &str = "\
Examples:
  relive record make test
  relive record -o /tmp/trace -- ./server --port 80
  relive record --chaos ./racy-test";

const REPLAY: &str = "\
Replay a recording: the same bytes on standard output and error, in the same order, and the \
same end.

Nothing else is touched: a replay opens none of the program's files, sends nothing, and starts \
none of its programs anew. If it meets anything that the recording does not say, it stops, \
shows both sides, and ends with status 125.";

const REPLAY_AFTER: &str = "\
Examples:
  relive replay
  relive replay make-3
  relive replay /tmp/trace
  relive replay --from 100 --to 200  only the output between these events of the first process";

const DEBUG: &str = "\
Debug a recording with gdb, forwards and backwards.

All of gdb works: breakpoints, watchpoints, stepping, threads, and backwards reverse-continue, \
reverse-step, reverse-next, reverse-finish. The program's files are read out of the recording. \
What is written into the program, and functions that are called from gdb, go into a copy that \
is thrown away when the recording goes on. gdb's `monitor help` lists what Relive adds.

With --serve gdb is not started; any front end may connect that speaks its remote protocol.";

const DEBUG_AFTER: &str = "\
Examples:
  relive debug                          the latest recording, from its start
  relive debug --at crash make-3        right before the signal that killed it
  relive debug --at end -- -ex 'watch total' -ex reverse-continue
  relive debug --serve 1234             then in gdb: target remote :1234";

const DAP: &str = "\
Serve an editor that debugs a recording, forwards and backwards: VS Code, Neovim, Zed, Helix, \
Emacs, and whatever else speaks the Debug Adapter Protocol.

The editor starts this command and talks to it over standard input and output. It says which \
recording it wants in its launch configuration, whose fields are those of `relive debug`: trace \
(name or folder; without it the latest), at (start, end, crash, or a number of events), process, \
gdb; and sourceMap (an object: folders of the debug information, and where they are now), \
stopOnEntry, initCommands (of gdb's console). gdb does the work below, and has to be installed.

With --port it waits for one editor on the loopback interface instead, for those that want to \
connect; only programs of the same user are served.";

const DAP_AFTER: &str = "\
A launch configuration of VS Code (docs/editors.md has those of other editors):
  { \"type\": \"relive\", \"request\": \"launch\", \"name\": \"Latest recording\" }

Backwards: the buttons Step Back and Reverse. In the debug console, relive position, relive goto \
PLACE and others are Relive's (relive debug has the same), and -exec COMMAND is any command of \
gdb's.";

const BACKTRACE: &str = "\
Show the call stack of a recorded program at one place of its recording, with functions, files \
and lines.

Names and lines come from the copies of its files that the recording holds, and from separate \
debug information of the same build id, in the recording or in /usr/lib/debug. They are those \
of the program that ran, whatever lies on this machine now.";

const BACKTRACE_AFTER: &str = "\
Examples:
  relive backtrace --at crash
  relive backtrace bank-2 --at 2000 --all --json";

const LAST_WRITE: &str = "\
Find the instruction, or the system call, that last wrote to memory of a recorded program.

The answer tells where it is (process, thread, events of the process before it, ticks of the \
thread, address of the instruction) and the bytes before and after. A write of the same value \
is a write.";

const LAST_WRITE_AFTER: &str = "\
Examples:
  relive last-write --var total
  relive last-write --addr 0x100040a0
  relive last-write bank-2 --addr 0x100040a0 --len 8 --before 2000 --json";

const CALLS: &str = "\
List the calls of a function over a whole recording: where, by which thread, with which \
arguments and which result.

Arguments are the first six integer registers of the calling convention, whatever the function \
declares; the result is the integer one.";

const CALLS_AFTER: &str = "\
Examples:
  relive calls transfer
  relive calls 0x10001159
  relive calls 0x10001159 bank-2 --max 10 --json";

const VERIFY: &str = "\
Replay a recording twice without its output, and compare both with it and with each other.

The files that the trace holds are compared with their checksums first. The two replays \
translate the program differently: in large pieces, and in very small ones. In both, the \
position and the registers must be the recorded ones at every event of every thread. Checksums \
of the program's whole memory, taken every N events of each process, must be the same in both.";

const HUNT: &str = "\
Run a program again and again under different schedules until it fails, and keep that run.

For tests that fail now and then. The first run has a fair schedule, each later one a chaotic \
schedule with a new seed. A run fails if it ends with another exit status than 0, dies of a \
signal, or does not end in time. Its recording is kept and becomes the latest; those of the \
other runs are removed. The runs read an empty standard input, and their output is not shown: \
replay the one that was kept to see it.";

const HUNT_AFTER: &str = "\
Exit status:
  0    no run failed
  1    a run failed, and its recording is kept
  125  Relive cannot go on

Examples:
  relive hunt ./flaky-test
  relive hunt -n 1000 --timeout 5s -- cargo test --release";

const RUN: &str = "\
Run a program translated, without recording it: to see whether a program works under the \
translator, and what that costs.";

const PACK: &str = "\
Pack a recording into one file that another machine can unpack, replay and debug.

A recording has all that a replay needs. With it go separate debug information of its programs \
and libraries, by build id, and the source files that debug information names, as far as they \
are on this machine; sources as they are now. A recording holds everything that the program \
read: look at whom you give it to. The file is a compressed tar archive.";

const PACK_AFTER: &str = "\
Examples:
  relive pack
  relive pack bank-2 -o race.tar.zst
  relive unpack race.tar.zst";

const UNPACK: &str = "\
Unpack a packed recording: a new one in the folder for recordings, which becomes the latest, or \
a new folder of its own.

What is no whole recording is refused and removed. If this machine lacks instruction sets that \
the recorded one had, that is said.";

const LS: &str = "\
List the recordings in the folder for recordings, oldest first.

An asterisk marks the latest, which other commands take when no trace is named.";

const INFO: &str = "\
Show the facts of one recording: what was run, where, how it ended, its processes and threads \
with their events and ticks, and what a machine needs to replay it.

A tick is one executed backward jump, call or indirect jump; ticks measure how far a thread has \
come.";

const DUMP: &str = "\
Print the events of a recording as text, one line for each: thread, index, tick, and what \
happened.

Events are what a replay cannot compute: results of system calls, signals, switches of threads, \
and instructions such as rdtsc. Each thread has its own tape, and so the threads come one after \
the other. What a call wrote into the program's memory is shown as text; what it only read is \
not in a recording, and shows as an address.";

const DUMP_AFTER: &str = "\
Examples:
  relive dump
  relive dump make-3 --process 0 --thread 1 --from 100 --to 200
  relive dump --json | jq 'select(.name == \"openat\")'";

const DEMO: &str = "\
Show the main job on a small program with a real data race: a bank whose threads move money \
between accounts without a lock.

The program is compiled with the C compiler cc or gcc, and recorded until its total is wrong. \
That recording is replayed three times, and output and exit status are compared. The recording \
is kept as the latest. Ends with status 1 if anything is not as it should be.";

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

/// The guest program and its own arguments.
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

/// Arguments of `record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// New or empty folder for the trace
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Vary the schedule to expose bugs; the seed, random or given, is printed on standard error
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true)]
    pub chaos: Option<Option<Seed>>,
    #[command(flatten)]
    pub stats: StatsArgs,
    #[command(flatten)]
    pub guest: Guest,
}

/// Whether and how to say what was done.
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

/// Arguments of the commands that need nothing but a trace.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Name or folder of the trace [default: the latest]
    pub trace: Option<PathBuf>,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Show output from where so many events of the process have happened
    #[arg(long, value_name = "EVENT", conflicts_with = "stats")]
    pub from: Option<u64>,
    /// Stop where so many events of the process have happened
    #[arg(long, value_name = "EVENT", conflicts_with = "stats")]
    pub to: Option<u64>,
    /// With --from or --to, which process: its index in the recording [default: 0]
    #[arg(short, long, value_name = "N", conflicts_with = "stats")]
    pub process: Option<u32>,
    #[command(flatten)]
    pub stats: StatsArgs,
}

/// A guest address, in hexadecimal with 0x.
#[derive(Debug, Clone, Copy)]
pub struct GuestAddress(pub u64);

impl std::str::FromStr for GuestAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("0x");
        let parsed = match digits {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        };
        parsed
            .map(Self)
            .ok_or_else(|| format!("'{text}' is no address: write it as 0x401000"))
    }
}

/// Arguments of `debug`.
#[derive(Debug, Args)]
pub struct DebugArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Where to begin: start, end, crash, or where so many events of the process have happened
    #[arg(long, value_name = "PLACE", default_value = "start", value_parser = place)]
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

/// Arguments of `dap`.
#[derive(Debug, Args)]
pub struct DapArgs {
    /// Wait for one editor on this port of the loopback interface; 0 for any that is free
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

/// Reads a place of a recording.
fn place(text: &str) -> Result<At, String> {
    Ok(match text {
        "start" => At::Start,
        "end" => At::End,
        "crash" => At::Crash,
        n => {
            At::Event(n.parse().map_err(|_| {
                format!("'{n}' is no place: start, end, crash, or a number of events")
            })?)
        }
    })
}

/// A function by name or address.
#[derive(Debug, Clone)]
pub enum Function {
    /// Its first instruction.
    Address(u64),
    /// As the linker has it, or demangled.
    Name(String),
}

impl std::str::FromStr for Function {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // No name begins with a digit.
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return text.parse().map(|GuestAddress(at)| Self::Address(at));
        }
        Ok(Self::Name(text.to_owned()))
    }
}

/// Arguments of `backtrace`.
#[derive(Debug, Args)]
pub struct BacktraceArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Where: start, end, crash, or where so many events of the process have happened
    #[arg(long, value_name = "PLACE", default_value = "end", value_parser = place)]
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

/// Arguments of `last-write`.
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
    /// Name of a global variable
    #[arg(long, value_name = "NAME")]
    pub var: Option<String>,
    /// Bytes of it [default: the variable's size, or 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub len: Option<u64>,
    /// Before so many events of the process have happened [default: its end]
    #[arg(long, value_name = "EVENT")]
    pub before: Option<u64>,
    /// Which process: its index in the recording
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub process: u32,
    /// Print an object, or null
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `calls`.
#[derive(Debug, Args)]
pub struct CallsArgs {
    /// Its name, or the address of its first instruction
    pub function: Function,
    /// Name or folder of the trace [default: the latest]
    pub trace: Option<PathBuf>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max: usize,
    /// Which process: its index in the recording
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub process: u32,
    /// Print one object for each call
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `verify`.
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

/// Arguments of `hunt`.
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

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub stats: StatsArgs,
    #[command(flatten)]
    pub guest: Guest,
}

/// Arguments of `pack`.
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

/// Arguments of `unpack`.
#[derive(Debug, Args)]
pub struct UnpackArgs {
    /// The packed recording
    pub file: PathBuf,
    /// New folder for the recording
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Arguments of `ls`.
#[derive(Debug, Args)]
pub struct LsArgs {
    /// Print an array of objects
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Print an object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `dump`.
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

/// Arguments of the hidden `travel`.
#[derive(Debug, Args)]
pub struct TravelArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    #[arg(long, default_value_t = 0)]
    pub process: u32,
}

/// Arguments of the hidden `attempt`.
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

/// Reads a time: a number with or without a unit, seconds without.
fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 4] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let wrong = || format!("'{text}' is no time: write it as 500ms, 10s, 5m or 1h");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1.0,
        name => {
            UNITS
                .iter()
                .find(|(unit, _)| *unit == name)
                .ok_or_else(wrong)?
                .1
        }
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times() {
        for (text, ms) in [
            ("0", 0),
            ("2", 2000),
            ("0.5", 500),
            ("250ms", 250),
            ("3s", 3000),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1", "1d", "1 s", "nan", "inf", "1e400", "é"] {
            assert!(duration(text).is_err(), "{text}");
        }
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
