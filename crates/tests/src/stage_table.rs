//! The table of stages, and the choice among them by `RELIVE_STAGES` (names from [`STAGES`], separated by
//! commas). The native stage is always among them: without it nothing proves a case itself. It must never
//! start a program.

use crate::header::StageGroup;

/// The action of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Native,
    Run,
    Record,
    /// Recorded with session images on the way.
    RecordImages,
    /// The same compared with a replay.
    CompareImages,
    /// Recorded in this mode so that the last part is kept, which is replayed.
    Flight(&'static str),
    /// Recorded with threads on all cores.
    Sketch,
    /// The same, with all accesses to memory in order.
    Coherence,
    /// Recorded in this mode with session images between epochs.
    Epochs(&'static str),
    Replay,
    /// A replay of a sketch with threads on all cores.
    ParallelReplay,
    /// A replay of several parts at the same time, each from an image.
    ReplayParts,
    Verify,
    /// The same of parts.
    VerifyParts,
    /// Session images on the way, and a replay from each of them.
    Index,
    /// Parts of the recording as recordings of their own.
    Split,
}

/// One row of the table of stages.
#[derive(Debug)]
pub struct Stage {
    /// Its name in `RELIVE_STAGES` and in messages.
    pub name: &'static str,
    pub(crate) action: Action,
    /// The translator's settings.
    pub(crate) translation: &'static [(&'static str, &'static str)],
    /// The stage with the recording that this one uses.
    pub(crate) of: Option<&'static str>,
    pub(crate) mode: Option<StageGroup>,
}

const fn stage(
    name: &'static str,
    action: Action,
    translation: &'static [(&'static str, &'static str)],
    of: Option<&'static str>,
    mode: Option<StageGroup>,
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
    /// Whether a subject takes part where nobody has asked for stages. Those of images and of flights take longest, and
    /// come to the statically linked guests only, lest all of them together take longer than anybody waits.
    pub(crate) fn is_for(&self, subject: &str, asked: bool) -> bool {
        let long = matches!(
            self.action,
            Action::RecordImages
                | Action::CompareImages
                | Action::ReplayParts
                | Action::VerifyParts
                | Action::Flight(_)
                | Action::Epochs(_)
        ) || matches!(
            (self.action, self.of),
            (Action::Index | Action::Split, Some("sketch" | "coherence"))
                | (
                    _,
                    Some("epochs-of-sketch" | "epochs-of-coherence" | "uniparallel")
                )
        );
        asked || !long || subject.ends_with("-static")
    }

    pub(crate) fn is_tiny(&self) -> bool {
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
pub const STAGES: [Stage; 40] = [
    stage("native", Action::Native, USUAL, None, None),
    stage("run", Action::Run, PAIRED, None, Some(StageGroup::Run)),
    stage("run-tiny", Action::Run, TINY, None, Some(StageGroup::Run)),
    stage(
        "record",
        Action::Record,
        USUAL,
        None,
        Some(StageGroup::Record),
    ),
    stage(
        "replay",
        Action::Replay,
        PAIRED,
        Some("record"),
        Some(StageGroup::Replay),
    ),
    stage(
        "replay-tiny",
        Action::Replay,
        TINY,
        Some("record"),
        Some(StageGroup::Replay),
    ),
    stage(
        "verify",
        Action::Verify,
        USUAL,
        Some("record"),
        Some(StageGroup::Verify),
    ),
    stage(
        "index",
        Action::Index,
        PAIRED,
        Some("record"),
        Some(StageGroup::Verify),
    ),
    stage(
        "split",
        Action::Split,
        USUAL,
        Some("record"),
        Some(StageGroup::Verify),
    ),
    stage(
        "record-tiny",
        Action::Record,
        TINY_PAIRED,
        None,
        Some(StageGroup::Record),
    ),
    stage(
        "replay-of-tiny",
        Action::Replay,
        USUAL,
        Some("record-tiny"),
        Some(StageGroup::Replay),
    ),
    stage(
        "record-images",
        Action::RecordImages,
        USUAL,
        None,
        Some(StageGroup::Record),
    ),
    stage(
        "compare-images",
        Action::CompareImages,
        USUAL,
        Some("record-images"),
        Some(StageGroup::Verify),
    ),
    stage(
        "replay-parts",
        Action::ReplayParts,
        USUAL,
        Some("record-images"),
        Some(StageGroup::Replay),
    ),
    stage(
        "verify-parts",
        Action::VerifyParts,
        USUAL,
        Some("record-images"),
        Some(StageGroup::Verify),
    ),
    stage(
        "flight",
        Action::Flight("serial"),
        USUAL,
        None,
        Some(StageGroup::Verify),
    ),
    stage(
        "sketch",
        Action::Sketch,
        USUAL,
        None,
        Some(StageGroup::Record),
    ),
    stage(
        "parallel-replay",
        Action::ParallelReplay,
        USUAL,
        Some("sketch"),
        Some(StageGroup::Replay),
    ),
    // The first replay finds the turns; the second has them.
    stage(
        "replay-of-sketch",
        Action::Replay,
        PAIRED,
        Some("sketch"),
        Some(StageGroup::Replay),
    ),
    stage(
        "verify-of-sketch",
        Action::Verify,
        USUAL,
        Some("sketch"),
        Some(StageGroup::Verify),
    ),
    stage(
        "epochs-of-sketch",
        Action::Epochs("sketch"),
        USUAL,
        None,
        Some(StageGroup::Record),
    ),
    stage(
        "replay-of-sketch-epochs",
        Action::Replay,
        PAIRED,
        Some("epochs-of-sketch"),
        Some(StageGroup::Replay),
    ),
    // The images between epochs are an index then.
    stage(
        "compare-of-sketch-epochs",
        Action::CompareImages,
        USUAL,
        Some("epochs-of-sketch"),
        Some(StageGroup::Verify),
    ),
    stage(
        "verify-of-sketch-epochs",
        Action::VerifyParts,
        USUAL,
        Some("epochs-of-sketch"),
        Some(StageGroup::Verify),
    ),
    // The order is found while the program runs.
    stage(
        "uniparallel",
        Action::Epochs("uniparallel"),
        USUAL,
        None,
        Some(StageGroup::Record),
    ),
    stage(
        "replay-of-uniparallel",
        Action::Replay,
        PAIRED,
        Some("uniparallel"),
        Some(StageGroup::Replay),
    ),
    stage(
        "compare-of-uniparallel",
        Action::CompareImages,
        USUAL,
        Some("uniparallel"),
        Some(StageGroup::Verify),
    ),
    stage(
        "coherence",
        Action::Coherence,
        USUAL,
        None,
        Some(StageGroup::Record),
    ),
    stage(
        "replay-of-coherence",
        Action::Replay,
        PAIRED,
        Some("coherence"),
        Some(StageGroup::Replay),
    ),
    stage(
        "verify-of-coherence",
        Action::Verify,
        USUAL,
        Some("coherence"),
        Some(StageGroup::Verify),
    ),
    stage(
        "epochs-of-coherence",
        Action::Epochs("coherence"),
        USUAL,
        None,
        Some(StageGroup::Record),
    ),
    stage(
        "replay-of-coherence-epochs",
        Action::Replay,
        PAIRED,
        Some("epochs-of-coherence"),
        Some(StageGroup::Replay),
    ),
    // The images between epochs are an index then.
    stage(
        "compare-of-coherence-epochs",
        Action::CompareImages,
        USUAL,
        Some("epochs-of-coherence"),
        Some(StageGroup::Verify),
    ),
    stage(
        "verify-of-coherence-epochs",
        Action::VerifyParts,
        USUAL,
        Some("epochs-of-coherence"),
        Some(StageGroup::Verify),
    ),
    // Of the turns that have been found.
    stage(
        "index-of-sketch",
        Action::Index,
        PAIRED,
        Some("sketch"),
        Some(StageGroup::Verify),
    ),
    stage(
        "index-of-coherence",
        Action::Index,
        PAIRED,
        Some("coherence"),
        Some(StageGroup::Verify),
    ),
    stage(
        "split-of-sketch",
        Action::Split,
        USUAL,
        Some("sketch"),
        Some(StageGroup::Verify),
    ),
    stage(
        "split-of-coherence",
        Action::Split,
        USUAL,
        Some("coherence"),
        Some(StageGroup::Verify),
    ),
    stage(
        "flight-of-sketch",
        Action::Flight("sketch"),
        USUAL,
        None,
        Some(StageGroup::Verify),
    ),
    stage(
        "flight-of-coherence",
        Action::Flight("coherence"),
        USUAL,
        None,
        Some(StageGroup::Verify),
    ),
];

/// With pairs and little room.
const SMALL: &[(&str, &str)] = &[("RELIVE_CACHE_BYTES", "131072"), PAIRED[0]];

/// `relive run` with so small a code cache that it is emptied often: for guests whose threads are in it
/// then.
pub const RUN_IN_SMALL_CACHE: Stage =
    stage("run-small", Action::Run, SMALL, None, Some(StageGroup::Run));

/// Recorded with all accesses to memory in order, with one-instruction fragments.
pub const COHERENCE_IN_TINY_FRAGMENTS: Stage = stage(
    "coherence",
    Action::Coherence,
    TINY,
    None,
    Some(StageGroup::Record),
);

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
    fn long_stages_are_for_some_or_who_asks() {
        let long = |subject: &str, asked| {
            let left_out = STAGES.iter().filter(|stage| !stage.is_for(subject, asked));
            left_out.map(|stage| stage.name).collect::<Vec<_>>()
        };
        let all = [
            "record-images",
            "compare-images",
            "replay-parts",
            "verify-parts",
            "flight",
            "epochs-of-sketch",
            "replay-of-sketch-epochs",
            "compare-of-sketch-epochs",
            "verify-of-sketch-epochs",
            "uniparallel",
            "replay-of-uniparallel",
            "compare-of-uniparallel",
            "epochs-of-coherence",
            "replay-of-coherence-epochs",
            "compare-of-coherence-epochs",
            "verify-of-coherence-epochs",
            "index-of-sketch",
            "index-of-coherence",
            "split-of-sketch",
            "split-of-coherence",
            "flight-of-sketch",
            "flight-of-coherence",
        ];
        assert_eq!(long("guest-jumps-pie", false), all);
        assert!(long("guest-jumps-pie", true).is_empty());
        assert!(long("guest-jumps-static", false).is_empty());
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
}
