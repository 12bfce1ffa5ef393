//! The place of a new recording.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use relive_engine::Failure;

/// The folder of a recording that is about to begin.
pub struct Place {
    path: PathBuf,
    numbered: Option<Numbered>,
}

/// A folder that was created here, and may be removed here.
struct Numbered {
    base: PathBuf,
    latest_before: Option<PathBuf>,
}

impl Place {
    /// The folder that the user named; the one it lies in is made if need be.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn named(path: &Path) -> Result<Self, Failure> {
        if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
            std::fs::create_dir_all(above).map_err(|error| {
                Failure::setup(format!(
                    "{} cannot be made ({error}): name a folder that can be written",
                    above.display()
                ))
            })?;
        }
        Ok(Self {
            path: path.to_owned(),
            numbered: None,
        })
    }

    /// A new numbered folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn numbered(program: &OsStr) -> Result<Self, Failure> {
        let base = relive_trace::default_dir().map_err(Failure::setup)?;
        let path = relive_trace::new_numbered(&base, program).map_err(Failure::setup)?;
        let latest_before = std::fs::read_link(base.join("latest")).ok();
        Ok(Self {
            path,
            numbered: Some(Numbered {
                base,
                latest_before,
            }),
        })
    }

    /// Lets `latest` lead here, if this is a numbered one. Best done before the recording
    /// begins, so that the next command finds it even if the recorder is killed.
    ///
    /// # Errors
    /// The link cannot be made.
    pub fn make_latest(&self) -> Result<(), Failure> {
        let made = self
            .numbered
            .as_ref()
            .map(|n| relive_trace::set_latest(&n.base, &self.path));
        made.unwrap_or(Ok(())).map_err(Failure::setup)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of this trace in the next command.
    pub fn name(&self) -> String {
        let short = self
            .numbered
            .as_ref()
            .and_then(|n| self.path.strip_prefix(&n.base).ok());
        short.unwrap_or(&self.path).display().to_string()
    }

    /// Whether it has a number of its own in the folder for recordings.
    pub fn is_numbered(&self) -> bool {
        self.numbered.is_some()
    }

    /// Removes the folder of a recording that did not even begin; recorded data stays.
    pub fn withdraw(self) {
        if self.numbered.is_some() && std::fs::remove_dir(&self.path).is_ok() {
            self.restore_latest();
        }
    }

    /// Removes an unwanted recording, if its folder was created here.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(self) -> Result<(), Failure> {
        if self.numbered.is_some() {
            std::fs::remove_dir_all(&self.path).map_err(|error| {
                Failure::setup(format!(
                    "{} cannot be removed: {error}",
                    self.path.display()
                ))
            })?;
            self.restore_latest();
        }
        Ok(())
    }

    fn restore_latest(&self) {
        let Some(Numbered {
            base,
            latest_before,
        }) = &self.numbered
        else {
            return;
        };
        let link = base.join("latest");
        // Another recording may have become the latest meanwhile.
        if std::fs::read_link(&link).is_ok_and(|to| base.join(to) == self.path) {
            let _ = match latest_before {
                Some(before) => relive_trace::set_latest(base, &base.join(before)).map_err(drop),
                None => std::fs::remove_file(link).map_err(drop),
            };
        }
    }
}
