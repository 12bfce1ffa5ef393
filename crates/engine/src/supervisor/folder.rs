//! Folders that come and go: a temporary one is removed when its owner drops it.

use std::path::{Path, PathBuf};

use super::target::absolute;
use crate::failure::{Failure, Result};

/// Removes a folder with all in it, if there is one.
///
/// # Errors
/// It cannot be removed.
pub fn remove_folder(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Failure::setup(format!(
            "cannot empty {}: {e}",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// A temporary folder, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    /// A new one; its purpose is a part of its name.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(purpose: &str) -> Result<Self> {
        let base = absolute(&std::env::temp_dir())?;
        for n in 0..1000 {
            let path = base.join(format!("relive-{purpose}-{}-{n}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => {
                    return Err(Failure::setup(format!(
                        "cannot make {}: {e}",
                        path.display()
                    )));
                }
            }
        }
        Err(Failure::setup(format!(
            "cannot make a folder in {}",
            base.display()
        )))
    }
}

impl Folder {
    /// One that is there.
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
