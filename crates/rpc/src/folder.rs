//! The folder of a recording: one tape for each process, named after the process.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::causal;
use crate::outcome::OpenError;
use crate::tape::{SUFFIX, Tape, TapeError};

/// All tapes of a recording, in the order of their names. Where some are cut, records that depend on
/// missing ones are left out of the others.
pub fn read_all(dir: &Path) -> Result<Vec<Tape>, OpenError> {
    let failed = |error: io::Error| OpenError::Tape(dir.to_owned(), error.into());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.to_string_lossy().ends_with(SUFFIX) {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path: &PathBuf, until| {
        let tape = std::fs::read(path).map_err(TapeError::from);
        let tape = tape.and_then(|bytes| Tape::parse_until(&bytes, until));
        tape.map_err(|error| OpenError::Tape(path.clone(), error))
    };
    let all = paths.iter().map(|path| read(path, u64::MAX));
    let mut tapes = all.collect::<Result<Vec<_>, _>>()?;
    let untils = causal::cut(&tapes);
    for ((tape, path), until) in tapes.iter_mut().zip(&paths).zip(untils) {
        if until < tape.until {
            *tape = read(path, until)?;
        }
    }
    Ok(tapes)
}

/// Makes the file of a tape, and its folder; one that is there is left alone.
pub(crate) fn create(dir: &Path, path: &Path) -> io::Result<File> {
    let (mut folder, mut file) = (DirBuilder::new(), OpenOptions::new());
    folder.recursive(true);
    file.write(true).create_new(true);
    // Requests and answers of services are nobody else's business.
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        folder.mode(0o700);
        file.mode(0o600);
    }
    folder.create(dir)?;
    file.open(path)
}
