//! What a flight recording is to keep, and how it is asked. Must never know how it does so.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// How much of the past a flight recording keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlightWindow {
    /// At least so much time.
    Time(Duration),
    /// About so many bytes of tapes at most, as they lie in memory.
    Bytes(u64),
    /// Nothing, until somebody asks for what comes from then on.
    Nothing,
}

/// What a flight recording keeps, and where.
#[derive(Clone, Debug)]
pub struct FlightPlan {
    /// How much of the past.
    pub window: FlightWindow,
    /// A signal to the recorder that asks for what there is.
    pub signal: Option<i32>,
    /// The folder of the first recording that is kept; further ones get a number.
    pub place: PathBuf,
    /// Also what there is at the end, however that is.
    pub always: bool,
}

/// The name of the file by which `relive keep` asks, in the folder of the work.
const ASKED: &str = "keep";
/// The name of the file with the process id of the recorder.
pub const RUNS: &str = "pid";
/// The name of the file that answers.
pub const ANSWER: &str = "kept";

/// What somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepRequest {
    /// What there is by now.
    Past,
    /// All from now on.
    FromNow,
}

impl KeepRequest {
    /// What the file says that asks for it.
    fn word(self) -> &'static str {
        match self {
            Self::Past => "past\n",
            Self::FromNow => "from now\n",
        }
    }

    /// Asks the flight recording that works in this folder.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub fn ask(self, work: &Path) -> std::io::Result<()> {
        let new = work.join(".asked");
        std::fs::write(&new, self.word())?;
        std::fs::rename(new, work.join(ASKED))
    }

    /// What has been asked for, which is not asked for any more.
    pub(super) fn take(work: &Path) -> Option<Self> {
        let asked = work.join(ASKED);
        let word = std::fs::read_to_string(&asked).ok()?;
        std::fs::remove_file(asked).ok()?;
        [Self::Past, Self::FromNow]
            .into_iter()
            .find(|asked| asked.word() == word)
    }
}
