//! The command line: every option and its help. What is written here is what
//! `docs/cli.md` says.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use relive_sched::Seed;

/// Records a multithreaded Linux program once and replays it exactly, as often as you like.
#[derive(Debug, Parser)]
#[command(
    name = "relive",
    version,
    max_term_width = 90,
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program and record it.
    Record(RecordArgs),
    /// Replay a recording.
    Replay(ReplayArgs),
    /// Replay a recording and check it at every event.
    Verify(VerifyArgs),
    /// Run a program translated, without recording it.
    Run(RunArgs),
}

/// The recorded program and its own arguments.
#[derive(Debug, Args)]
pub struct Guest {
    /// The program and its arguments, passed on as they are.
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
    /// The new or empty folder for the trace.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Vary the schedule to expose bugs; the seed is printed on standard error.
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true)]
    pub chaos: Option<Option<Seed>>,
    #[command(flatten)]
    pub guest: Guest,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Name or folder of the trace; the latest without it.
    pub trace: Option<PathBuf>,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Name or folder of the trace; the latest without it.
    pub trace: Option<PathBuf>,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub guest: Guest,
}

impl Command {
    fn guest(&self) -> Option<&Guest> {
        match self {
            Self::Record(args) => Some(&args.guest),
            Self::Run(args) => Some(&args.guest),
            _ => None,
        }
    }
}

/// Reads the command line; a wrong one ends the process with status 2.
pub fn parse() -> Command {
    let command = Cli::parse().command;
    // The guest's words may be anything, so a mistyped option of ours would become the program.
    if let Some(program) = command.guest().map(Guest::program)
        && program.as_bytes().starts_with(b"-")
    {
        let text = format!(
            "unexpected argument '{}' where the program should be; a program of that name is './{0}'",
            program.to_string_lossy()
        );
        Cli::command()
            .error(ErrorKind::UnknownArgument, text)
            .exit();
    }
    command
}
