//! An epoch of a recording whose threads ran at the same time: the stretch between two of its session images, or between one and
//! an end of the recording. A replay of an epoch begins with the image before it and ends where each thread stands in
//! the one behind it; it is right when the process is then as that image says, which is all that the epochs behind it depend on
//! (DoublePlay: Veeraraghavan and others, ASPLOS 2011, section 3.2). Must never end well without that.

use relive_trace::{ImageReader, ImageSet, Trace};

use crate::failure::{Failure, Result};
use crate::session_state::{ImageResult, SessionState};

/// Tells a replay its epoch, in the environment of its first host process.
pub const VARIABLE: &str = "RELIVE_EPOCH";

/// An epoch of the first process, by the images around it, which are named by their work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// The one with which it begins; `None`: it begins with the program.
    pub begin: Option<u64>,
    /// The one to which it leads; `None`: it ends with the recording.
    pub end: Option<u64>,
}

impl Epoch {
    /// The epoch that the environment asks for: all of the recording, if it asks for none.
    ///
    /// # Errors
    /// It asks for something else.
    pub fn requested() -> Result<Self> {
        let Ok(text) = std::env::var(VARIABLE) else {
            return Ok(Self::default());
        };
        Self::from_text(&text)
            .ok_or_else(|| Failure::setup(format!("{VARIABLE} names no epoch: {text}")))
    }

    /// The variable's value.
    #[must_use]
    pub fn to_text(self) -> String {
        let name = |work: Option<u64>| work.map_or("-".to_owned(), |work| work.to_string());
        format!("{} {}", name(self.begin), name(self.end))
    }

    /// From the variable's value.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let (begin, end) = text.split_once(' ')?;
        let work = |name: &str| match name {
            "-" => Some(None),
            name => name.parse().ok().map(Some),
        };
        Some(Self {
            begin: work(begin)?,
            end: work(end)?,
        })
    }
}

/// The end of the epoch of this replay.
pub struct EpochEnd {
    /// The process as the image says.
    pub state: SessionState,
    /// For its pages.
    pub image: ImageReader,
}

impl EpochEnd {
    /// Opens the image, before the replay confines itself.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn open(trace: &Trace, work: u64) -> Result<Self> {
        let opened = || -> ImageResult<Self> {
            let image = ImageReader::open(trace.directory(), ImageSet::Epochs, 0, work)?;
            let mut state = SessionState::of(&image)?;
            state.settle(trace);
            Ok(Self { state, image })
        };
        opened().map_err(|refused| refused.failure(ImageSet::Epochs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_told_in_words() {
        for (begin, end) in [(None, None), (Some(7), None), (None, Some(u64::MAX))] {
            let epoch = Epoch { begin, end };
            assert_eq!(Epoch::from_text(&epoch.to_text()), Some(epoch));
        }
        for text in ["", "7", "7 8 9", "a -", "- 18446744073709551616"] {
            assert_eq!(Epoch::from_text(text), None, "{text}");
        }
    }
}
