//! Content of a file, by which a trace names its copy.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::bytes::{from_hex, to_hex};

/// Bytes read at a time.
const BLOCK: usize = 256 << 10;
/// Alignment of buffer and offset for reads of a file open with `O_DIRECT`: open(2).
const ALIGNMENT: usize = 4096;

/// Content of a file: its BLAKE3 hash. Prints as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub [u8; 32]);

impl FileId {
    /// Hash of a file's whole content, its file offset untouched.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(file: &File) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        each_block(file, |block| {
            hasher.update(block);
            Ok(())
        })?;
        Ok(Self(hasher.finalize().into()))
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for FileId {
    /// Carries no details: the text is not a hash.
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let bytes = from_hex(text).ok_or(())?;
        bytes.try_into().map(Self).map_err(|_| ())
    }
}

/// Reads a file in blocks. The recorded program may have opened the descriptor with `O_DIRECT`:
/// then buffer and offset must be aligned, and no read may start behind an odd end.
pub(crate) fn each_block(
    file: &File,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut room = vec![0; BLOCK + ALIGNMENT];
    let skip = room.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut room[skip..][..BLOCK];
    let mut at = 0_u64;
    loop {
        let odd = !at.is_multiple_of(ALIGNMENT as u64);
        if odd && at >= file.metadata()?.len() {
            return Ok(());
        }
        match file.read_at(buffer, at) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                each(&buffer[..n])?;
                at += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
