//! Errors of a recording on disk, each as one sentence with its remedy.

use std::io;
use std::path::{Path, PathBuf};

use crate::event::TapeId;
use crate::file_id::FileId;
use crate::version::Version;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device is full, or a quota or file size limit is reached.
    #[error(
        "no room to write {path} ({source}): free some space, or point RELIVE_TRACE_DIR at a folder on a larger disk"
    )]
    Full {
        /// Path being written.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path is not writable, or not there.
    #[error(
        "{path} cannot be written ({source}): make its folder writable, or point RELIVE_TRACE_DIR at one that is"
    )]
    NotWritable {
        /// Path to be written.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Any other failure while writing.
    #[error("writing {path} failed ({source}): check the disk that holds it")]
    Write {
        /// Path being written.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the trace, or one to be copied into it, cannot be read.
    #[error("{path} cannot be read ({source}): check that it exists and that you may read it")]
    Read {
        /// Path being read.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The directory already holds something.
    #[error("{path} already holds files: record into a new or empty folder")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// Images are made by another process.
    #[error("another relive makes session images of {path} just now: wait until it has ended")]
    Busy {
        /// The trace.
        path: PathBuf,
    },
    /// No manifest there.
    #[error("{path} is not a trace (it has no manifest.json): name the folder of a recording")]
    NotATrace {
        /// The directory.
        path: PathBuf,
    },
    /// The manifest does not parse.
    #[error("{path} is damaged ({source}): copy the trace again or record anew")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// The format's major version is not ours.
    #[error(
        "{path} has trace format {found} (recorded by relive {recorder}) and this relive reads formats {} and {}: use a relive that reads {found}",
        .supported[0], .supported[1]
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// The trace's format.
        found: Version,
        /// The formats of this crate.
        supported: [Version; 2],
        /// The version of the program that made the trace.
        recorder: String,
    },
    /// A file of the trace is not of the kind or size it must have.
    #[error("{path} is damaged ({what}): copy the trace again or record anew")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the fault.
        what: &'static str,
    },
    /// A chunk's header or content does not hold together.
    #[error("{path} is damaged at byte {offset} ({what}): copy the trace again or record anew")]
    Chunk {
        /// The tapes file.
        path: PathBuf,
        /// Where the chunk begins.
        offset: u64,
        /// Description of the fault.
        what: &'static str,
    },
    /// The bytes of a tape are not events, although their checksums hold.
    #[error(
        "event {index} of tape {tape} in {path} is not readable ({what}): replay it with the relive that recorded it, or report this"
    )]
    Event {
        /// The tapes file.
        path: PathBuf,
        /// The tape.
        tape: TapeId,
        /// Index of the event on its tape.
        index: u64,
        /// Description of the fault.
        what: &'static str,
    },
    /// The trace has no such tape.
    #[error("{path} has no tape {tape}: the recording ended before that thread logged anything")]
    NoTape {
        /// The trace.
        path: PathBuf,
        /// The tape.
        tape: TapeId,
    },
    /// Only regular files can be copied into a trace.
    #[error("only regular files can be kept in a trace, and the guest mapped something else ({0})")]
    NotRegular(&'static str),
    /// A copied file is missing.
    #[error(
        "{path} is damaged (the file {id} that the guest mapped is missing): copy the trace again, with its files folder"
    )]
    NoFile {
        /// The trace.
        path: PathBuf,
        /// The file.
        id: FileId,
    },
    /// A copied file is not the one that was mapped.
    #[error(
        "{path} is damaged (its content is {found}): copy the trace again, with its files folder"
    )]
    FileContent {
        /// The copy.
        path: PathBuf,
        /// Hash of its actual content.
        found: FileId,
    },
    /// The bytes of an image do not decode.
    #[error(
        "the description of a program image is not readable ({what} at byte {at}): replay it with the relive that recorded it, or report this"
    )]
    Image {
        /// Offset in the encoded image.
        at: usize,
        /// Description of the fault.
        what: &'static str,
    },
    /// No such recording.
    #[error("there is no trace {name} here or in {base}: list the recordings to see their names")]
    NotFound {
        /// The name that was asked for.
        name: PathBuf,
        /// The folder of recordings.
        base: PathBuf,
    },
    /// Nothing was recorded yet.
    #[error("there is no recording in {base} yet: record a program first, or name a trace")]
    NoLatest {
        /// The folder of recordings.
        base: PathBuf,
    },
    /// There are recordings, of which none is the latest.
    #[error(
        "none of the recordings in {base} is marked as the latest: name one (`relive ls` lists them)"
    )]
    Unmarked {
        /// The folder of recordings.
        base: PathBuf,
    },
    /// The environment names no folder for recordings.
    #[error(
        "neither RELIVE_TRACE_DIR, XDG_DATA_HOME nor HOME is set: set RELIVE_TRACE_DIR to a folder for recordings"
    )]
    NoHome,
}

impl Error {
    /// Classifies a failure to write `path`.
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        use io::ErrorKind as K;
        let path = path.to_owned();
        match source.kind() {
            K::StorageFull | K::QuotaExceeded | K::FileTooLarge => Self::Full { path, source },
            K::PermissionDenied | K::ReadOnlyFilesystem | K::NotFound | K::NotADirectory => {
                Self::NotWritable { path, source }
            }
            _ => Self::Write { path, source },
        }
    }

    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }
}
