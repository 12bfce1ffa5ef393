//! The tapes file as its readers use it: one chunk at a time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use zstd::bulk::Decompressor;

use crate::chunk::{HEADER_LEN, Header};
use crate::error::{Error, Result};

/// The tapes file, shared by all readers. Only positioned reads are used: a forked copy of
/// the process shares the file's offset, and must not be able to disturb another.
#[derive(Debug)]
pub(crate) struct Tapes {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    /// No tape may end inside an event.
    pub(crate) whole: bool,
}

/// Where a chunk is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    pub(crate) offset: u64,
    pub(crate) header: Header,
}

impl Tapes {
    /// Appends the events of one chunk to `out`, or leaves `out` as it was.
    pub(crate) fn read(&self, chunk: &Chunk, out: &mut Vec<u8>) -> Result<()> {
        let header = &chunk.header;
        let damaged = |what| Error::Chunk {
            path: self.path.clone(),
            offset: chunk.offset,
            what,
        };
        let mut stored = vec![0; header.stored_len as usize];
        self.file
            .read_exact_at(&mut stored, chunk.offset + HEADER_LEN as u64)
            .map_err(|error| Error::read(&self.path, error))?;
        if header.sum(&stored) != header.checksum {
            return Err(damaged("the checksum of a chunk is wrong"));
        }
        if !header.zstd {
            out.extend_from_slice(&stored);
            return Ok(());
        }
        let start = out.len();
        let raw_len = header.raw_len as usize;
        out.resize(start + raw_len, 0);
        let unpacked = Decompressor::new()
            .and_then(|mut zstd| zstd.decompress_to_buffer(&stored, &mut out[start..]));
        if !matches!(unpacked, Ok(length) if length == raw_len) {
            out.truncate(start);
            return Err(damaged("a chunk that does not unpack to its length"));
        }
        Ok(())
    }
}
