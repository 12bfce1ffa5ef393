//! Work folders of subjects. A folder must never be held by two harnesses at once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The work folder of one subject: empty at first, held by one harness at a time, removed after
/// success and kept for a look by hand after a failure.
pub struct Workshop {
    pub(crate) root: PathBuf,
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
