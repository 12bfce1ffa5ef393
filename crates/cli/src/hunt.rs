//! `relive hunt`.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use relive_engine::supervisor::{self, EndStatus};
use relive_engine::{EXIT_STATUS, Failure};
use relive_sched::Seed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::args::HuntArgs;
use crate::attempt::Outcome;
use crate::place::Place;
use crate::record::random_seed;
use crate::stats::Stats;
use crate::{command_line, format, interrupt, output, progress};

/// Exit status when a failing run was found, as a test command would say.
const FOUND: i32 = 1;

/// How long a run may take to end after an interrupt from the keyboard, which it also got.
const GRACE: u32 = 20;

/// Records until a run fails.
///
/// # Errors
/// Any failure of Relive.
pub fn execute(args: &HuntArgs) -> Result<EndStatus, Failure> {
    supervisor::find_program(args.guest.program(), args.guest.args())?;
    interrupt::watch();
    let mut sum = Stats::default();
    let tell = |sum: &Stats| {
        if let Some(how) = args.stats.stats {
            sum.tell(how);
        }
    };
    let mut sites = Vec::new();
    let progress = progress::spinner(args.max.into());
    for run in 1..=args.max {
        progress.set_position(run.into());
        // A fair schedule first: a program that always fails needs no unlikely one.
        let seed = (run > 1).then(random_seed);
        let place = Place::numbered(args.guest.program())?;
        let outcome = match attempt(&place, args, seed, &sites) {
            Ok(outcome) => outcome,
            Err(failure) => {
                place.remove()?;
                return Err(failure);
            }
        };
        if interrupt::came() {
            place.remove()?;
            progress.finish_and_clear();
            output::complain(&format!("interrupted in run {run}; no run failed before"));
            return Ok(EndStatus::Signal(libc::SIGINT));
        }
        if let Some(stats) = outcome.as_ref().and_then(|outcome| outcome.stats.as_ref()) {
            sum.add(stats);
        }
        let Some(outcome) = outcome else {
            place.remove()?;
            continue;
        };
        if !outcome.failed() {
            sites = outcome.sites;
            place.remove()?;
            continue;
        }
        place.make_latest()?;
        progress.finish_and_clear();
        tell(&sum);
        return found(&place, run, seed, &outcome, args.timeout);
    }
    progress.finish_and_clear();
    tell(&sum);
    output::print(|out| {
        Ok(writeln!(
            out,
            "no failure in {}",
            format::count(args.max.into(), "run")
        )?)
    })
}

fn found(
    place: &Place,
    run: u32,
    seed: Option<Seed>,
    outcome: &Outcome,
    timeout: Duration,
) -> Result<EndStatus, Failure> {
    let relive = command_line::own_name();
    let name = place.name();
    let how = match (outcome.timed_out, outcome.code, outcome.signal) {
        (true, _, _) => format!("still running after {}", format::duration(timeout)),
        (false, Some(code), _) => format::status(EndStatus::Code(code)),
        (false, None, signal) => format::status(EndStatus::Signal(signal.unwrap_or(0))),
    };
    let schedule = seed.map_or("fair schedule".to_owned(), |seed| {
        format!("chaos seed {seed}")
    });
    output::print(|out| {
        writeln!(out, "run {run} failed: {how} ({schedule})")?;
        writeln!(out, "kept as {name}, in {}", place.path().display())?;
        writeln!(out, "next:")?;
        // Without a crash, one looks back from the end.
        let debug = match outcome.signal {
            Some(_) if !outcome.timed_out => "debug --at crash",
            _ => "debug --at end",
        };
        let rows = [
            ("replay", "the same failure again, with its output"),
            (debug, "gdb there, to go back from"),
            ("info", "its processes and threads"),
            ("dump", "all that happened to it"),
        ];
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|(command, what)| vec![format!("  {relive} {command} {name}"), (*what).to_owned()])
            .collect();
        format::table(out, &[], &rows)?;
        Ok(())
    })?;
    Ok(EndStatus::Code(FOUND))
}

/// One run; `None` when it was interrupted before it could report its outcome.
fn attempt(
    place: &Place,
    args: &HuntArgs,
    seed: Option<Seed>,
    sites: &[u64],
) -> Result<Option<Outcome>, Failure> {
    let (guest, timeout) = (&args.guest, args.timeout);
    let mut words: Vec<OsString> = vec!["attempt".into(), "--trace".into(), place.path().into()];
    words.extend(seed.map(|seed| format!("--seed={seed}").into()));
    words.extend(
        (!timeout.is_zero()).then(|| format!("--timeout-ms={}", timeout.as_millis().max(1)).into()),
    );
    words.extend(args.stats.stats.map(|_| "--stats".into()));
    if !sites.is_empty() {
        let sites: Vec<String> = sites.iter().map(u64::to_string).collect();
        words.push(format!("--sites={}", sites.join(",")).into());
    }
    words.push("--".into());
    words.push(guest.program().into());
    words.extend_from_slice(guest.args());
    let mut child = Command::new("/proc/self/exe")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::setup(format!("cannot start a run: {error}")))?;
    wait(&mut child);
    let output = child
        .wait_with_output()
        .map_err(|error| Failure::setup(format!("cannot learn how a run ended: {error}")))?;
    if let Ok(outcome) = serde_json::from_slice(&output.stdout) {
        return Ok(Some(outcome));
    }
    if interrupt::came() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let text = text
        .trim_end()
        .strip_prefix("relive: ")
        .unwrap_or(text.trim_end())
        .to_owned();
    if output.status.code() == Some(EXIT_STATUS) && !text.is_empty() {
        return Err(Failure::Setup(text));
    }
    Err(Failure::internal(format!(
        "a run ended without a word ({})",
        output.status
    )))
}

/// Waits until the run closes its output, or fails to react to an interrupt.
fn wait(child: &mut Child) {
    const TICK: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    let mut since_interrupt = 0;
    let Some(stdout) = &child.stdout else { return };
    loop {
        // An error is an interrupt, which the next line looks at.
        let ready = poll(&mut [PollFd::new(stdout, PollFlags::IN)], Some(&TICK)).unwrap_or(0);
        since_interrupt += u32::from(interrupt::came());
        if ready > 0 {
            return;
        }
        if since_interrupt > GRACE {
            // It may be gone already, which is no error.
            let _ = child.kill();
            return;
        }
    }
}
