//! The stages of a case: native first, then `relive run`, `record`, `replay` and `verify`,
//! with large fragments and with one-instruction ones.

use crate::child::{Outcome, Spec};
use crate::command;
use crate::compare::{check_expected, check_like_native, check_refused, check_same};
use crate::escape::shell_quote;
use crate::header::{Header, Parallel, Where};
use crate::splits;
use crate::stage_table::{Action, STAGES, Stage};
use crate::workshop::Workshop;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// One program to run through the stages.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Names the work folder; unique among all trials.
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The file's header.
    pub header: Header,
}

/// Runs one subject through `stages` in the work folder below `base`.
///
/// # Errors
/// The first stage that fails, with the command that repeats it. The work folder is kept.
pub fn run_all(subject: &Subject, stages: &[&Stage], base: &Path) -> Result<(), String> {
    let workshop = Workshop::open(base, &subject.name)?;
    let mut done: Vec<(&str, Outcome)> = Vec::new();
    let asked = std::env::var_os("RELIVE_STAGES").is_some();
    for stage in stages
        .iter()
        .filter(|stage| applies(stage, &subject.header) && stage.is_for(&subject.name, asked))
    {
        let outcome = run_stage(subject, stage, &workshop, &done);
        let outcome = outcome.map_err(|e| format!("stage {}: {e}", stage.name))?;
        done.push((stage.name, outcome));
    }
    workshop.clear()
}

/// The command line of one stage as a child: the subject itself, or `relive` on it.
///
/// # Errors
/// There is no `relive` command, or no folder.
pub fn spec(subject: &Subject, stage: &Stage, workshop: &Workshop) -> Result<Spec, String> {
    let mut argv: Vec<OsString> = Vec::new();
    if stage.action != Action::Native {
        argv.push(command::relive()?.into());
    }
    let trace = workshop.trace_dir(stage.of.unwrap_or(stage.name));
    match stage.action {
        Action::Native => {}
        // The stage has several children.
        Action::Split => {}
        Action::Run => argv.extend(["run".into(), "--".into()]),
        Action::Record => argv.extend(["record".into(), "-o".into(), trace.into(), "--".into()]),
        Action::RecordImages => argv.extend([
            "record".into(),
            "--index=0".into(),
            "-o".into(),
            trace.into(),
            "--".into(),
        ]),
        Action::Flight(mode) => argv.extend([
            "record".into(),
            format!("--mode={mode}").into(),
            "--flight=20ms".into(),
            "--keep".into(),
            "-o".into(),
            trace.into(),
            "--".into(),
        ]),
        Action::CompareImages => argv.extend(["index".into(), "--compare".into(), trace.into()]),
        Action::Sketch => argv.extend([
            "record".into(),
            "--mode".into(),
            "sketch".into(),
            "-o".into(),
            trace.into(),
            "--".into(),
        ]),
        Action::Epochs(mode) => argv.extend([
            "record".into(),
            format!("--mode={mode}").into(),
            "--index=0".into(),
            "-o".into(),
            trace.into(),
            "--".into(),
        ]),
        Action::Coherence => argv.extend([
            "record".into(),
            "--mode".into(),
            "coherence".into(),
            "-o".into(),
            trace.into(),
            "--".into(),
        ]),
        Action::Replay => argv.extend(["replay".into(), trace.into()]),
        Action::ParallelReplay => argv.extend(["replay".into(), "--parallel".into(), trace.into()]),
        Action::ReplayParts => argv.extend(["replay".into(), "--jobs=3".into(), trace.into()]),
        Action::VerifyParts => argv.extend(["verify".into(), "--jobs=3".into(), trace.into()]),
        Action::Verify => argv.extend(["verify".into(), trace.into()]),
        Action::Index => argv.extend([
            "index".into(),
            "--images".into(),
            "5".into(),
            "--check".into(),
            trace.into(),
        ]),
    }
    let is_live = matches!(
        stage.action,
        Action::Native
            | Action::Run
            | Action::Record
            | Action::RecordImages
            | Action::Flight(_)
            | Action::Sketch
            | Action::Epochs(_)
            | Action::Coherence
    );
    if is_live {
        argv.extend(subject.argv.iter().cloned());
    }
    let translation = stage.translation.iter();
    let translation = translation.map(|&(name, value)| (name, value.to_owned()));
    // Later stages begin with the translations of earlier ones.
    let cache = (stage.action != Action::Native).then(|| {
        let folder = workshop.cache_dir();
        ("RELIVE_CACHE_DIR", folder.to_string_lossy().into_owned())
    });
    Ok(Spec {
        argv,
        env: translation.chain(cache).collect(),
        dir: workshop.fresh_dir(stage.name)?,
        stdin: subject.header.stdin.clone().filter(|_| is_live),
        timeout: subject.header.timeout,
    })
}

fn applies(stage: &Stage, header: &Header) -> bool {
    stage.mode.is_none_or(|mode| header.modes.contains(&mode))
        && (header.tiny || !stage_is_tiny(stage))
        // A refused case leaves no recording to replay.
        && STAGES
            .iter()
            .filter(|made| stage.of == Some(made.name))
            .all(|made| refusal(made, header).is_none())
        && (header.sketch || !is_of_sketch(stage))
        && (header.is_for_coherence() || !is_of_coherence(stage))
        && (header.images || !uses_images(stage))
        && (header.index
            || !uses_images(stage)
                && !matches!(
                    stage.action,
                    Action::Index | Action::Split | Action::Flight(_)
                ))
}

fn uses_images(stage: &Stage) -> bool {
    matches!(
        stage.of,
        Some("record-images" | "epochs-of-sketch" | "epochs-of-coherence" | "uniparallel")
    )
}

fn is_of_sketch(stage: &Stage) -> bool {
    matches!(
        stage.action,
        Action::Sketch | Action::Epochs("sketch" | "uniparallel") | Action::Flight("sketch")
    ) || matches!(
        stage.of,
        Some("sketch" | "epochs-of-sketch" | "uniparallel")
    )
}

fn is_of_coherence(stage: &Stage) -> bool {
    matches!(
        stage.action,
        Action::Coherence | Action::Epochs("coherence") | Action::Flight("coherence")
    ) || matches!(stage.of, Some("coherence" | "epochs-of-coherence"))
}

/// The text with which `relive` must refuse this stage, if it must.
fn refusal<'a>(stage: &Stage, header: &'a Header) -> Option<&'a [u8]> {
    if stage.action == Action::ParallelReplay && header.parallel == Parallel::Refused {
        return Some(b"cannot be replayed with --parallel");
    }
    let refusal = header.refused.as_ref()?;
    let here = match stage.action {
        Action::Record | Action::RecordImages | Action::Flight("serial") => {
            refusal.place != Where::Sketch
        }
        Action::Run => refusal.place == Where::All,
        Action::Sketch | Action::Epochs(_) | Action::Coherence | Action::Flight(_) => {
            refusal.place == Where::Sketch
        }
        Action::Native
        | Action::Replay
        | Action::ParallelReplay
        | Action::ReplayParts
        | Action::Verify
        | Action::VerifyParts
        | Action::Index
        | Action::CompareImages
        | Action::Split => false,
    };
    here.then_some(&refusal.says)
}

fn stage_is_tiny(stage: &Stage) -> bool {
    stage.is_tiny()
        || stage
            .of
            .is_some_and(|of| STAGES.iter().any(|row| row.name == of && row.is_tiny()))
}

fn run_stage(
    subject: &Subject,
    stage: &Stage,
    workshop: &Workshop,
    done: &[(&str, Outcome)],
) -> Result<Outcome, String> {
    let header = &subject.header;
    let before = |name: &str| done.iter().find(|row| row.0 == name).map(|row| &row.1);
    if stage.action == Action::Split {
        let of = stage.of.expect("a part has a recording");
        let recorded = before(of).ok_or_else(|| format!("the header leaves out {of}"))?;
        let whole = spec(subject, stage, workshop)?;
        let relive = |words: Vec<OsString>| {
            let mut spec = whole.clone();
            spec.argv.truncate(1);
            spec.argv.extend(words);
            Ok(spec)
        };
        let trace = workshop.trace_dir(of).into();
        return splits::check(stage.name, &trace, recorded, workshop, &relive);
    }
    let made = spec(subject, stage, workshop)?;
    let outcome = made.run()?;
    if let Some(says) = refusal(stage, header) {
        check_refused(says, &outcome)?;
        return Ok(outcome);
    }
    match stage.action {
        Action::Native => check_expected(header, &outcome, false)?,
        Action::Run
        | Action::Record
        | Action::RecordImages
        | Action::Flight(_)
        | Action::Sketch
        | Action::Epochs(_)
        | Action::Coherence => {
            check_expected(header, &outcome, true)?;
            check_like_native(
                header,
                before("native").expect("native runs first"),
                &outcome,
            )?;
            if matches!(stage.action, Action::Flight(_)) {
                let again = Spec {
                    stdin: None,
                    ..made
                };
                let relive = |words: Vec<OsString>| {
                    let mut spec = again.clone();
                    spec.argv.truncate(1);
                    spec.argv.extend(words);
                    Ok(spec)
                };
                let kept = workshop.trace_dir(stage.name).into();
                splits::check_part(kept, true, &outcome, &relive)?;
            }
        }
        Action::Replay | Action::ParallelReplay | Action::ReplayParts => {
            let of = stage.of.expect("a replay has a recording");
            let recorded = before(of).ok_or_else(|| format!("the header leaves out {of}"))?;
            let checked =
                stage.action == Action::ParallelReplay && header.parallel == Parallel::Checked;
            if !(checked && has_left_recording(&outcome)) {
                check_same(recorded, &outcome).map_err(|e| add_recording(e, recorded))?;
            }
            left_nothing_behind(&workshop.root.join(stage.name), &outcome)?;
        }
        Action::Verify
        | Action::VerifyParts
        | Action::Index
        | Action::CompareImages
        | Action::Split => {
            if !outcome.status.success() {
                return Err(format!(
                    "{}\nto repeat:\n  {}\nits stderr ends:\n{}",
                    crate::compare::describe(outcome.status),
                    outcome.by_hand,
                    crate::child::tail(&outcome.stderr)
                ));
            }
        }
    }
    Ok(outcome)
}

/// Whether a parallel replay says that it has left the recording, and what to do.
fn has_left_recording(outcome: &Outcome) -> bool {
    let says = String::from_utf8_lossy(&outcome.stderr);
    outcome.status.code() == Some(125)
        && says.contains("divergence [RL2]")
        && says.contains("`relive replay` without --parallel")
}

fn add_recording(error: String, recorded: &Outcome) -> String {
    format!("{error}\nrecorded by:\n  {}", recorded.by_hand)
}

/// A replay makes no file of the guest's: its working folder must still be empty.
fn left_nothing_behind(dir: &Path, outcome: &Outcome) -> Result<(), String> {
    let mut entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(format!(
            "the replay made files in {}\nto repeat:\n  {}",
            shell_quote(dir.as_os_str()),
            outcome.by_hand
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage_table::selected;

    #[test]
    fn headers_leave_stages_out() {
        let count = |text: &str| {
            let header = Header::parse(&format!("# relive: {text}\n"), "#").unwrap();
            STAGES
                .iter()
                .filter(|stage| applies(stage, &header))
                .count()
        };
        assert_eq!(count(""), 16);
        assert_eq!(count("tiny=no"), 12);
        assert_eq!(count("index=no"), 10);
        assert_eq!(count("modes=run,record"), 6);
        assert_eq!(count("refused=x"), 7);
        assert_eq!(count("threads=yes"), 26);
        assert_eq!(count("sketch=yes"), 40);
        assert_eq!(count("sketch=yes coherence=no"), 30);
        assert_eq!(count("sketch=yes refused=x refused-in=sketch"), 23);
    }

    #[test]
    fn a_refusal_is_expected_where_the_header_says() {
        let refused = |text: &str| -> Vec<&str> {
            let header = Header::parse(&format!("# relive: {text}\n"), "#").unwrap();
            STAGES
                .iter()
                .filter(|stage| refusal(stage, &header).is_some())
                .map(|stage| stage.name)
                .collect()
        };
        assert!(refused("").is_empty());
        let recorded = ["record", "record-tiny", "record-images", "flight"];
        assert_eq!(refused("refused=x"), recorded);
        let together = [
            "sketch",
            "epochs-of-sketch",
            "uniparallel",
            "coherence",
            "epochs-of-coherence",
            "flight-of-sketch",
            "flight-of-coherence",
        ];
        assert_eq!(refused("refused=x refused-in=sketch"), together);
        assert_eq!(refused("parallel=refused"), ["parallel-replay"]);
        let all = [
            "run",
            "run-tiny",
            "record",
            "record-tiny",
            "record-images",
            "flight",
        ];
        assert_eq!(refused("refused=x refused-in=all"), all);
    }

    #[test]
    fn a_case_that_fails_natively_fails() {
        let subject = |script: &str, header: &str| Subject {
            name: format!("selftest-{}", std::process::id()),
            argv: ["/bin/sh", "-c", script].map(OsString::from).to_vec(),
            header: Header::parse(&format!("# relive: {header}\n"), "#").unwrap(),
        };
        let base = std::env::temp_dir().join(format!("relive-selftest-{}", std::process::id()));
        let native = selected(Some("native")).unwrap();
        let run = |script, header| run_all(&subject(script, header), &native, &base);
        run("echo ok", "").unwrap();
        let error = run("echo bad", "").unwrap_err();
        assert!(
            error.contains("stage native") && error.contains("to repeat"),
            "{error}"
        );
        run("echo bad; kill -TERM $$", "signal=SIGTERM").unwrap();
        fs::remove_dir_all(&base).unwrap();
    }
}
