//! Messages of a search for the order of threads: decisions go to a replay of a sketch, and how far it came with
//! them comes back.

use serde::{Deserialize, Serialize};

use super::races::Race;
use crate::failure::Failure;

/// Where a thread stood when a replay left the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// Index of the process.
    pub process: u32,
    /// Index of the thread.
    pub thread: u32,
    /// Moments behind the thread.
    pub moments: u64,
    /// Operations behind it.
    pub ops: u64,
    /// Its tick.
    pub ticks: u64,
    /// The tick of its next event, in the recording.
    pub recorded: u64,
    /// Events behind it.
    pub events: u64,
    /// The first page of memory that differs, if all threads have come to the end of their epoch; else 0.
    #[serde(default)]
    pub page: u64,
}

/// An order to a replay that looks for the turns of its threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TrialOrder {
    /// Follow these decisions from here on, as words.
    Decide(String),
    /// Look for races from here on.
    Watch,
    /// Go on, for a while.
    Go,
    /// The same, but not much beyond this amount of work.
    Approach(u64),
}

/// How far a thread has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPlace {
    /// Index in the process.
    pub thread: u32,
    /// Moments behind it.
    pub moments: u64,
    /// Operations behind it.
    pub ops: u64,
    /// Its tick.
    pub ticks: u64,
}

/// How far the threads of such a replay have come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialStanding {
    /// Those that there are.
    pub threads: Vec<ThreadPlace>,
    /// Threads with this index and higher ones have not been born.
    pub born: u32,
    /// It has executed another program, whose threads count their operations anew.
    pub executed: bool,
}

/// The state of such a replay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// Events of the process so far.
    pub events: u64,
    /// It has come to the end, and has agreed with all of the recording.
    pub ended: bool,
    /// It has left the recording: why, and where.
    pub failed: Option<(Failure, Option<Disagreement>)>,
    /// Where its threads stand; `None`: no decision changes anything any more.
    pub standing: Option<TrialStanding>,
    /// Ticks of all threads so far: how much has been executed.
    pub work: u64,
    /// The last races, if it was to look for them: the last one comes last.
    pub races: Vec<Race>,
}
