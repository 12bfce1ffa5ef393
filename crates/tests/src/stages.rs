//! The stages of a case: native first, then `relive run`, `record`, `replay` and `verify`,
//! with large fragments and with one-instruction ones.
//!
//! `RELIVE_STAGES` (names from [`STAGES`], separated by commas) restricts them. The native
//! stage always runs: without it nothing proves the case itself.

use crate::child::{Outcome, Spec};
use crate::command;
use crate::compare::{check_expected, check_like_native, check_refused, check_same};
use crate::escape::shell_quote;
use crate::header::{Header, Mode, Where};
use rustix::fs::{FlockOperation, flock};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The action of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Native,
    Run,
    Record,
    /// Recorded with threads on all cores.
    Sketch,
    Replay,
    Verify,
}

/// One row of the table of stages.
#[derive(Debug)]
pub struct Stage {
    /// Its name in `RELIVE_STAGES` and in messages.
    pub name: &'static str,
    action: Action,
    /// The translator's settings.
    translation: &'static [(&'static str, &'static str)],
    /// The stage with the recording that this one uses.
    of: Option<&'static str>,
    mode: Option<Mode>,
}

const fn stage(
    name: &'static str,
    action: Action,
    translation: &'static [(&'static str, &'static str)],
    of: Option<&'static str>,
    mode: Option<Mode>,
) -> Stage {
    Stage {
        name,
        action,
        translation,
        of,
        mode,
    }
}

impl Stage {
    fn is_tiny(&self) -> bool {
        self.translation.contains(&TINY[0])
    }
}

/// The translator's defaults.
const USUAL: &[(&str, &str)] = &[];
/// One guest instruction per fragment.
const TINY: &[(&str, &str)] = &[("RELIVE_FRAGMENT_INSNS", "1")];
/// Calls and returns as pairs, as in large programs.
const PAIRED: &[(&str, &str)] = &[("RELIVE_PAIRS", "always")];
/// Both.
const TINY_PAIRED: &[(&str, &str)] = &[TINY[0], PAIRED[0]];

/// All stages in the order in which they run.
pub const STAGES: [Stage; 12] = [
    stage("native", Action::Native, USUAL, None, None),
    stage("run", Action::Run, PAIRED, None, Some(Mode::Run)),
    stage("run-tiny", Action::Run, TINY, None, Some(Mode::Run)),
    stage("record", Action::Record, USUAL, None, Some(Mode::Record)),
    stage(
        "replay",
        Action::Replay,
        PAIRED,
        Some("record"),
        Some(Mode::Replay),
    ),
    stage(
        "replay-tiny",
        Action::Replay,
        TINY,
        Some("record"),
        Some(Mode::Replay),
    ),
    stage(
        "verify",
        Action::Verify,
        USUAL,
        Some("record"),
        Some(Mode::Verify),
    ),
    stage(
        "record-tiny",
        Action::Record,
        TINY_PAIRED,
        None,
        Some(Mode::Record),
    ),
    stage(
        "replay-of-tiny",
        Action::Replay,
        USUAL,
        Some("record-tiny"),
        Some(Mode::Replay),
    ),
    stage("sketch", Action::Sketch, USUAL, None, Some(Mode::Record)),
    // The first replay finds the turns; the second has them.
    stage(
        "replay-of-sketch",
        Action::Replay,
        PAIRED,
        Some("sketch"),
        Some(Mode::Replay),
    ),
    stage(
        "verify-of-sketch",
        Action::Verify,
        USUAL,
        Some("sketch"),
        Some(Mode::Verify),
    ),
];

/// With pairs and little room.
const SMALL: &[(&str, &str)] = &[("RELIVE_CACHE_BYTES", "131072"), PAIRED[0]];

/// `relive run` with so small a code cache that it is emptied often: for guests whose threads are in it
/// then.
pub const RUN_IN_SMALL_CACHE: Stage = stage("run-small", Action::Run, SMALL, None, Some(Mode::Run));

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

/// The stages that `RELIVE_STAGES` names, with those that they need; all of them without it.
///
/// # Errors
/// A name that no stage has.
pub fn selected(wanted: Option<&str>) -> Result<Vec<&'static Stage>, String> {
    let Some(wanted) = wanted else {
        return Ok(STAGES.iter().collect());
    };
    let mut names: Vec<&str> = wanted.split(',').collect();
    for name in names.clone() {
        let known = || {
            STAGES
                .iter()
                .map(|stage| stage.name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let row = STAGES.iter().find(|stage| stage.name == name);
        let row = row.ok_or_else(|| format!("RELIVE_STAGES: {name:?} is none of {}", known()))?;
        names.extend(row.of);
    }
    names.push("native");
    Ok(STAGES
        .iter()
        .filter(|stage| names.contains(&stage.name))
        .collect())
}

/// The stages that the environment names.
///
/// # Errors
/// As [`selected`].
pub fn selected_by_env() -> Result<Vec<&'static Stage>, String> {
    selected(std::env::var("RELIVE_STAGES").ok().as_deref())
}

/// The work folder of one subject: empty at first, held by one harness at a time, removed after
/// success and kept for a look by hand after a failure.
pub struct Workshop {
    root: PathBuf,
    _lock: File,
}

impl Workshop {
    /// Makes the folder `name` below `base`, waiting for another harness that holds it.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn open(base: &Path, name: &str) -> Result<Self, String> {
        let refuse = |e: std::io::Error| format!("work folder for {name}: {e}");
        fs::create_dir_all(base).map_err(refuse)?;
        let lock = File::create(base.join(format!("{name}.lock"))).map_err(refuse)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|e| refuse(e.into()))?;
        let root = base.join(name);
        if root.exists() {
            fs::remove_dir_all(&root).map_err(refuse)?;
        }
        fs::create_dir(&root).map_err(refuse)?;
        Ok(Self { root, _lock: lock })
    }

    /// A fresh, empty working folder for one child.
    ///
    /// # Errors
    /// The file system refuses, or the folder was handed out before.
    pub fn fresh_dir(&self, name: &str) -> Result<PathBuf, String> {
        let dir = self.root.join(name);
        fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(dir)
    }

    /// The folder of the recording `name`.
    pub fn trace_dir(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.trace"))
    }

    /// The folder where the stages keep translations.
    pub fn cache_dir(&self) -> PathBuf {
        self.root.join("translations")
    }

    /// Removes everything after a success.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn clear(self) -> Result<(), String> {
        fs::remove_dir_all(&self.root).map_err(|e| format!("{}: {e}", self.root.display()))
    }
}

/// Runs one subject through `stages` in the work folder below `base`.
///
/// # Errors
/// The first stage that fails, with the command that repeats it. The work folder is kept.
pub fn run_all(subject: &Subject, stages: &[&Stage], base: &Path) -> Result<(), String> {
    let workshop = Workshop::open(base, &subject.name)?;
    let mut done: Vec<(&str, Outcome)> = Vec::new();
    for stage in stages
        .iter()
        .filter(|stage| applies(stage, &subject.header))
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
        Action::Run => argv.extend(["run".into(), "--".into()]),
        Action::Record => argv.extend(["record".into(), "-o".into(), trace.into(), "--".into()]),
        Action::Sketch => argv.extend([
            "record".into(),
            "--mode".into(),
            "sketch".into(),
            "-o".into(),
            trace.into(),
            "--".into(),
        ]),
        Action::Replay => argv.extend(["replay".into(), trace.into()]),
        Action::Verify => argv.extend(["verify".into(), trace.into()]),
    }
    let is_live = matches!(
        stage.action,
        Action::Native | Action::Run | Action::Record | Action::Sketch
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
        && (header.refused.is_none() || stage.of.is_none())
        && (header.sketch || !is_of_sketch(stage))
}

fn is_of_sketch(stage: &Stage) -> bool {
    stage.action == Action::Sketch || stage.of == Some("sketch")
}

/// The text with which `relive` must refuse this stage, if it must.
fn refusal<'a>(stage: &Stage, header: &'a Header) -> Option<&'a [u8]> {
    let refusal = header.refused.as_ref()?;
    let here = match stage.action {
        Action::Record => true,
        Action::Run => refusal.place == Where::All,
        Action::Native | Action::Sketch | Action::Replay | Action::Verify => false,
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
    let outcome = spec(subject, stage, workshop)?.run()?;
    if let Some(says) = refusal(stage, header) {
        check_refused(says, &outcome)?;
        return Ok(outcome);
    }
    match stage.action {
        Action::Native => check_expected(header, &outcome, false)?,
        Action::Run | Action::Record | Action::Sketch => {
            check_expected(header, &outcome, true)?;
            check_like_native(
                header,
                before("native").expect("native runs first"),
                &outcome,
            )?;
        }
        Action::Replay => {
            let of = stage.of.expect("a replay has a recording");
            let recorded = before(of).ok_or_else(|| format!("the header leaves out {of}"))?;
            check_same(recorded, &outcome).map_err(|e| add_recording(e, recorded))?;
            left_nothing_behind(&workshop.root.join(stage.name), &outcome)?;
        }
        Action::Verify => {
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

    fn names(wanted: Option<&str>) -> Vec<&'static str> {
        selected(wanted)
            .unwrap()
            .iter()
            .map(|stage| stage.name)
            .collect()
    }

    #[test]
    fn a_chosen_stage_brings_its_requirements() {
        assert_eq!(names(None).len(), STAGES.len());
        assert_eq!(names(Some("native")), ["native"]);
        assert_eq!(
            names(Some("replay-of-tiny,run")),
            ["native", "run", "record-tiny", "replay-of-tiny"]
        );
        assert!(selected(Some("replya")).unwrap_err().contains("replya"));
    }

    #[test]
    fn headers_leave_stages_out() {
        let count = |text: &str| {
            let header = Header::parse(&format!("# relive: {text}\n"), "#").unwrap();
            STAGES
                .iter()
                .filter(|stage| applies(stage, &header))
                .count()
        };
        assert_eq!(count(""), 9);
        assert_eq!(count("tiny=no"), 5);
        assert_eq!(count("modes=run,record"), 5);
        assert_eq!(count("refused=x"), 5);
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
        assert_eq!(refused("refused=x"), ["record", "record-tiny"]);
        let all = ["run", "run-tiny", "record", "record-tiny"];
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
