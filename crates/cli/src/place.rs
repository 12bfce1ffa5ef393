//! Where a recording goes, and which one is meant.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use relive_engine::Failure;

/// The folder of a recording that is about to begin.
///
/// `latest` leads to a numbered one from the beginning, so that it is found even if the
/// recorder is killed.
pub struct Place {
    /// The trace.
    pub path: PathBuf,
    /// Whether the folder was made here and may be removed again.
    made: Option<Made>,
}

struct Made {
    base: PathBuf,
    latest_before: Option<PathBuf>,
}

impl Place {
    /// The folder that the user named, or a new numbered one that becomes the latest.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(named: Option<&Path>, program: &OsStr) -> Result<Self, Failure> {
        if let Some(path) = named {
            return Ok(Self {
                path: path.to_owned(),
                made: None,
            });
        }
        let base = relive_trace::default_dir().map_err(Failure::setup)?;
        let path = relive_trace::new_numbered(&base, program).map_err(Failure::setup)?;
        let latest_before = std::fs::read_link(base.join("latest")).ok();
        relive_trace::set_latest(&base, &path).map_err(Failure::setup)?;
        Ok(Self {
            path,
            made: Some(Made {
                base,
                latest_before,
            }),
        })
    }

    /// What to type for this trace in the next command.
    pub fn name(&self) -> String {
        let short = self
            .made
            .as_ref()
            .and_then(|made| self.path.strip_prefix(&made.base).ok());
        short.unwrap_or(&self.path).display().to_string()
    }

    /// Whether the next command finds it without a name.
    pub fn is_latest(&self) -> bool {
        self.made.is_some()
    }

    /// Takes a recording back that did not even begin.
    pub fn withdraw(self) {
        let Some(made) = self.made else { return };
        // Only an empty folder is removed: whatever was recorded stays.
        if std::fs::remove_dir(&self.path).is_ok() {
            match made.latest_before {
                Some(before) => drop(relive_trace::set_latest(
                    &made.base,
                    &made.base.join(before),
                )),
                None => drop(std::fs::remove_file(made.base.join("latest"))),
            }
        }
    }
}

/// The trace that is meant: by name or folder, or the latest.
///
/// # Errors
/// There is none.
pub fn find(name: Option<&Path>) -> Result<PathBuf, Failure> {
    relive_trace::resolve(name).map_err(Failure::setup)
}
