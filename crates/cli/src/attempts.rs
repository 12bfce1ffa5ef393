//! One of many runs of a program: a process of its own, and the wait for it.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use relive_engine::supervisor::dies_with_parent;
use relive_engine::{EXIT_STATUS, Failure};
use relive_sched::{Flip, Seed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::args::{FlipArg, HuntMode};
use crate::attempt::Outcome;
use crate::interrupt;
use crate::place::Place;

/// How many tenths of a second a run may take to end after an interrupt from the keyboard, which it also
/// got, or after SIGTERM.
const GRACE: u32 = 20;

/// The program to run, and how.
pub struct AttemptStart<'a> {
    /// The program as it was given.
    pub program: &'a OsStr,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Where it runs, if not here.
    pub surroundings: Option<&'a Surroundings>,
    /// How its threads run.
    pub mode: HuntMode,
    /// A run that takes longer is ended; 0: none is.
    pub timeout: Duration,
    /// Count, for `--stats`.
    pub count: bool,
    /// Seed of the chaotic schedule.
    pub seed: Option<Seed>,
    /// Instructions by which threads met in other runs.
    pub sites: &'a [u64],
    /// Orders that are turned around, in the process of this index.
    pub flips: (u32, &'a [Flip]),
}

/// The working folder and the environment of a recording.
pub struct Surroundings {
    /// The folder.
    pub directory: PathBuf,
    /// Names and values.
    pub environment: Vec<(OsString, OsString)>,
}

/// One run; `None` when it was interrupted before it could report its outcome. It is told to end when
/// all is `over`.
///
/// # Errors
/// Any failure of Relive in it.
pub fn attempt(
    place: &Place,
    start: &AttemptStart<'_>,
    over: &AtomicBool,
) -> Result<Option<Outcome>, Failure> {
    let AttemptStart {
        mode,
        timeout,
        seed,
        sites,
        ..
    } = *start;
    let mut words: Vec<OsString> = vec!["attempt".into(), "--trace".into(), place.path().into()];
    words.extend((mode == HuntMode::Sketch).then(|| "--mode=sketch".into()));
    words.extend(seed.map(|seed| format!("--seed={seed}").into()));
    words.extend(
        (!timeout.is_zero()).then(|| format!("--timeout-ms={}", timeout.as_millis().max(1)).into()),
    );
    words.extend(start.count.then(|| "--stats".into()));
    if !sites.is_empty() {
        let sites: Vec<String> = sites.iter().map(u64::to_string).collect();
        words.push(format!("--sites={}", sites.join(",")).into());
    }
    let (process, flips) = start.flips;
    if !flips.is_empty() {
        let flips: Vec<String> = flips.iter().map(FlipArg::text).collect();
        words.push(format!("--flips={}", flips.join(",")).into());
        words.push(format!("--flipped-process={process}").into());
    }
    words.push("--".into());
    words.push(start.program.into());
    words.extend_from_slice(start.args);
    let mut command = Command::new("/proc/self/exe");
    if let Some(there) = start.surroundings {
        let own = std::env::vars_os();
        let own = own.filter(|(name, _)| name.as_encoded_bytes().starts_with(b"RELIVE_"));
        command
            .current_dir(&there.directory)
            .env_clear()
            .envs(there.environment.iter().map(|(name, value)| (name, value)))
            .envs(own);
    }
    interrupt::reach(&mut command);
    // What it sends to its group must not reach the search, nor other runs.
    command.process_group(0);
    dies_with_parent(&mut command);
    let mut child = command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::setup(format!("cannot start a run: {error}")))?;
    wait(&mut child, over);
    let output = child
        .wait_with_output()
        .map_err(|error| Failure::setup(format!("cannot learn how a run ended: {error}")))?;
    if let Ok(outcome) = serde_json::from_slice(&output.stdout) {
        return Ok(Some(outcome));
    }
    if interrupt::came() || over.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let text = text
        .trim_end()
        .strip_prefix("relive: ")
        .unwrap_or(text.trim_end())
        .to_owned();
    if output.status.code() == Some(EXIT_STATUS) && !text.is_empty() {
        return Err(Failure::setup(text));
    }
    Err(Failure::internal(format!(
        "a run ended without a word ({})",
        output.status
    )))
}

/// Waits until the run closes its output, or fails to react when it is to end.
fn wait(child: &mut Child, over: &AtomicBool) {
    const TENTH: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    let mut waited = 0;
    loop {
        let Some(stdout) = &child.stdout else { return };
        // An error is an interrupt, which the next lines look at.
        let ready = poll(&mut [PollFd::new(stdout, PollFlags::IN)], Some(&TENTH)).unwrap_or(0);
        if ready > 0 {
            return;
        }
        let is_over = interrupt::came() || over.load(Ordering::Relaxed);
        if is_over && waited == 0 {
            // It may be gone already, which is no error.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
        waited += u32::from(is_over);
        if waited > GRACE {
            let _ = child.kill();
            return;
        }
    }
}
