//! The search for the order of all epochs of a recording while that runs, in a process of its own. Its standard input is the recorder's
//! stream, in which it answers too.

use std::io::{Write, stdin};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use relive_engine::Failure;
use relive_engine::explore::{self, FirstReplay};
use relive_engine::supervisor::{EndStatus, FinderEnd, FinderNews};

use crate::args::EpochsArgs;
use crate::{epoch, traces};

/// Most attempts for an epoch of a recording that runs: who records waits for it in the end. The first replay searches on.
pub const ATTEMPTS: u32 = 24;

/// The command of a process that searches those of a recording that runs, so many at a time.
pub fn command(trace: &Path, jobs: usize) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("epochs").arg("--trace").arg(trace);
    command.arg("--jobs").arg(jobs.to_string());
    command
}

/// Searches while the recording runs, and what is left behind its end.
///
/// # Errors
/// There is no recorder.
pub fn execute(args: &EpochsArgs) -> Result<EndStatus, Failure> {
    let own = stdin().as_fd().try_clone_to_owned();
    let mut recorder = UnixStream::from(own.map_err(Failure::setup)?);
    let trace = &args.trace;
    let how = FirstReplay {
        jobs: args.jobs,
        attempts: ATTEMPTS,
        goes_as_a_whole: false,
        searcher: &|epoch, attempts| epoch::command(trace, epoch, attempts),
    };
    let meanwhile = explore::follow(trace, &how, &recorder)?;
    // From here on nobody but this process works for the keyboard.
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the default action.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let found = traces::find_order(trace, ATTEMPTS, false);
    let end = match found {
        Err(failure) => FinderEnd {
            meanwhile,
            ..FinderEnd::failed(failure)
        },
        Ok(found) => {
            let (missing, failed) = found.missing.unzip();
            FinderEnd {
                epochs: found.epochs,
                attempts: found.attempts,
                searched: found.searched,
                joining: found.joining,
                meanwhile,
                missing: missing.unwrap_or(0),
                failed,
            }
        }
    };
    let news = FinderNews {
        end: Some(end),
        ..FinderNews::default()
    };
    let mut line = serde_json::to_vec(&news).map_err(Failure::internal)?;
    line.push(b'\n');
    recorder.write_all(&line).map_err(Failure::setup)?;
    Ok(EndStatus::Code(0))
}
