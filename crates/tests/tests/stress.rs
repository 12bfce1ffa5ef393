//! Many recordings of every guest with threads (or processes that share memory), each replayed and verified, while the
//! harness keeps another core busy; as many runs of each storm with a small code cache; and the proof that
//! races are recorded, not hidden.
//!
//! `RELIVE_STRESS=N` sets the number of recordings (default 3; 50 is the full bar). The racy
//! counters are recorded 10 times, or 200 times where `RELIVE_STRESS` is 50 or more. Where it is set, each guest is also
//! recorded as often with all accesses to memory in order, with large fragments and one-instruction ones by turns.

use libtest_mimic::{Completion, Failed, Trial};
use relive_tests::case::{Case, guests};
use relive_tests::child::Outcome;
use relive_tests::compare::{check_expected, check_same};
use relive_tests::compile::compile;
use relive_tests::needs::{Missing, missing};
use relive_tests::stage_table::{
    COHERENCE_IN_TINY_FRAGMENTS, RUN_IN_SMALL_CACHE, STAGES, Stage, selected_by_env,
};
use relive_tests::stages::{Subject, spec};
use relive_tests::workshop::Workshop;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const TMP: &str = env!("CARGO_TARGET_TMPDIR");
/// Guests that race on one counter, with four threads and with four processes; each prints
/// `total T of N`.
const RACY_GUESTS: [&str; 2] = ["racy_counter", "shared_racy"];
/// The number of recordings, in the environment.
const RECORDINGS: &str = "RELIVE_STRESS";

/// The stages that record, replay and verify, for the recording of this number.
type Stages = fn(usize) -> [&'static Stage; 3];

/// With one thread at a time.
fn in_turns(_: usize) -> [&'static Stage; 3] {
    ["record", "replay", "verify"].map(stage)
}

/// With all accesses to memory in order, every other one with one-instruction fragments.
fn on_all_cores(n: usize) -> [&'static Stage; 3] {
    let names = ["coherence", "replay-of-coherence", "verify-of-coherence"];
    let [large, replay, verify] = names.map(stage);
    match n % 2 {
        0 => [large, replay, verify],
        _ => [&COHERENCE_IN_TINY_FRAGMENTS, replay, verify],
    }
}

fn stage(name: &str) -> &'static Stage {
    let mut all = STAGES.iter();
    all.find(|stage| stage.name == name).expect("a known stage")
}

fn main() -> ExitCode {
    let mut args = relive_tests::arguments();
    let (stages, recordings) = match (selected_by_env(), recordings()) {
        (Ok(stages), Ok(recordings)) => (stages, recordings),
        (Err(text), _) | (_, Err(text)) => {
            eprintln!("{text}");
            return ExitCode::FAILURE;
        }
    };
    let has_all = ["record", "replay", "verify"]
        .iter()
        .all(|name| stages.iter().any(|s| s.name == *name));
    let mut trials = Vec::new();
    for case in guests() {
        if !case.header.as_ref().is_ok_and(|header| header.threads) {
            continue;
        }
        if RACY_GUESTS.contains(&&*case.name) {
            let case = case.clone();
            let count = if recordings >= 50 { 200 } else { 10 };
            if case.header.as_ref().is_ok_and(|h| h.is_for_coherence()) {
                let case = case.clone();
                trials.push(trial(
                    format!("stress::races_are_recorded_on_all_cores::{}", case.name),
                    has_all,
                    move || races_are_recorded(&case, count, on_all_cores),
                ));
            }
            trials.push(trial(
                format!("stress::races_are_recorded::{}", case.name),
                has_all,
                move || races_are_recorded(&case, count, in_turns),
            ));
        }
        if case.name.starts_with("storm_") {
            let case = case.clone();
            let name = format!("stress::small_cache::{}", case.name);
            trials.push(trial(name, has_all, move || run_often(&case, recordings)));
        }
        let name = format!("stress::{}", case.name);
        let is_for_coherence = case.header.as_ref().is_ok_and(|h| h.is_for_coherence());
        if is_for_coherence && std::env::var_os(RECORDINGS).is_some() {
            let (name, case) = (format!("{name}::on_all_cores"), case.clone());
            trials.push(trial(name, has_all, move || {
                record_often(&case, recordings, on_all_cores)
            }));
        }
        trials.push(trial(name, has_all, move || {
            record_often(&case, recordings, in_turns)
        }));
    }
    // One trial at a time: the other core belongs to the busy thread.
    args.test_threads = Some(1);
    let load = Load::start();
    let conclusion = libtest_mimic::run(&args, trials);
    load.stop();
    conclusion.exit_code()
}

fn recordings() -> Result<usize, String> {
    let Ok(text) = std::env::var(RECORDINGS) else {
        return Ok(3);
    };
    let count: usize = text
        .parse()
        .map_err(|e| format!("RELIVE_STRESS={text:?}: {e}"))?;
    if count == 0 {
        Err("RELIVE_STRESS must be at least 1".into())
    } else {
        Ok(count)
    }
}

fn trial(
    name: String,
    has_all: bool,
    body: impl FnOnce() -> Result<Completion, Failed> + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || match has_all {
        true => body(),
        false => Ok(Completion::ignored_with(
            "skipped: RELIVE_STAGES leaves out what stress needs",
        )),
    })
}

/// A busy thread in this process, so that recordings compete for their cores.
struct Load {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Load {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Self { stop, thread }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the busy thread does not panic");
    }
}

fn record_often(case: &Case, count: usize, stages: Stages) -> Result<Completion, Failed> {
    let subject = match subject(case)? {
        Ok(subject) => subject,
        Err(reason) => return Ok(Completion::ignored_with(reason)),
    };
    for n in 0..count {
        record_replay_verify(&subject, stages(n))?;
    }
    Ok(Completion::Completed)
}

fn run_often(case: &Case, count: usize) -> Result<Completion, Failed> {
    let subject = match subject(case)? {
        Ok(subject) => subject,
        Err(reason) => return Ok(Completion::ignored_with(reason)),
    };
    let subject = Subject {
        name: format!("small-{}", case.name),
        ..subject
    };
    for _ in 0..count {
        let workshop = Workshop::open(&Path::new(TMP).join("work"), &subject.name)?;
        let ran = spec(&subject, &RUN_IN_SMALL_CACHE, &workshop)?.run()?;
        check_expected(&subject.header, &ran, true)?;
        workshop.clear()?;
    }
    Ok(Completion::Completed)
}

fn races_are_recorded(case: &Case, count: usize, stages: Stages) -> Result<Completion, Failed> {
    let subject = match subject(case)? {
        Ok(subject) => subject,
        Err(reason) => return Ok(Completion::ignored_with(reason)),
    };
    let mut totals = Vec::new();
    let mut full = 0;
    for n in 0..count {
        // A replay with another total would differ in its output and fail here.
        let recorded = record_replay_verify(&subject, stages(n))?;
        let (total, of) = total_of(&recorded).ok_or_else(|| {
            format!(
                "no line `total T of N` on stdout of\n  {}",
                recorded.by_hand
            )
        })?;
        totals.push(total);
        full = of;
    }
    totals.sort_unstable();
    let fewest = totals[0];
    totals.dedup();
    if fewest >= full || totals.len() < 2 {
        return Err(
            format!("{count} recordings hide the race: of {full}, totals {totals:?}").into(),
        );
    }
    Ok(Completion::Completed)
}

fn total_of(outcome: &Outcome) -> Option<(u64, u64)> {
    let text = String::from_utf8_lossy(&outcome.stdout);
    let rest = text.lines().find_map(|line| line.strip_prefix("total "))?;
    let (total, of) = rest.split_once(" of ")?;
    Some((total.parse().ok()?, of.parse().ok()?))
}

/// The compiled guest, or the reason to skip it.
fn subject(case: &Case) -> Result<Result<Subject, String>, Failed> {
    let header = case.header.clone()?;
    match missing(&header) {
        Some(Missing::Skip(reason)) => return Ok(Err(reason)),
        Some(Missing::Fail(reason)) => return Err(reason.into()),
        None => {}
    }
    let program = compile(
        &case.path,
        &header,
        case.links()[0],
        &Path::new(TMP).join("guests"),
    )?;
    let mut argv = vec![program.into_os_string()];
    argv.extend(header.args.iter().cloned());
    Ok(Ok(Subject {
        name: format!("stress-{}", case.name),
        argv,
        header,
    }))
}

fn record_replay_verify(
    subject: &Subject,
    [record, replay, verify]: [&Stage; 3],
) -> Result<Outcome, String> {
    let workshop = Workshop::open(&Path::new(TMP).join("work"), &subject.name)?;
    let run = |stage: &Stage| {
        let outcome = spec(subject, stage, &workshop).and_then(|spec| spec.run());
        outcome.map_err(|e| format!("stage {}: {e}", stage.name))
    };
    let recorded = run(record)?;
    check_expected(&subject.header, &recorded, true)?;
    let replayed = run(replay)?;
    check_same(&recorded, &replayed)?;
    let verified = run(verify)?;
    if !verified.status.success() {
        let text = String::from_utf8_lossy(&verified.stderr).into_owned();
        return Err(format!(
            "verify failed\nto repeat:\n  {}\nits stderr:\n{text}",
            verified.by_hand
        ));
    }
    workshop.clear()?;
    Ok(recorded)
}
