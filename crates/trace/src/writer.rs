//! Writing a trace: one writer for all tapes.
//!
//! Events are collected per tape and leave as whole chunks, each with a single write. Events that
//! could not be written stay collected, and a half-written chunk is cut off again, so that a caller
//! who made room can go on. It must never rewrite what is already in the file.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use zstd::bulk::Compressor;

use crate::chunk::{CHUNK_RAW_MAX, COMPRESSION_LEVEL, HEADER_LEN, Header};
use crate::error::{Error, Result};
use crate::event::TapeId;
use crate::excerpt::Excerpt;
use crate::files::{self, FileStore, create_private};
use crate::input::{self, PIECE_LEN, Piece};
use crate::manifest::{Manifest, Summary};

/// Name of the tapes file in a trace.
pub(crate) const TAPES: &str = "tapes";

/// Buffers that are kept for the tapes to come.
const SPARE: usize = 16;

/// Totals written so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Chunks in the tapes file.
    pub chunks: u64,
    /// Bytes of events in them.
    pub raw_bytes: u64,
    /// Length of the tapes file.
    pub stored_bytes: u64,
}

/// Writes one trace.
pub struct TraceWriter {
    directory: PathBuf,
    manifest: Manifest,
    path: PathBuf,
    file: File,
    tapes: BTreeMap<TapeId, Pending>,
    /// Buffers of tapes for which nothing is collected now.
    spare: Vec<Vec<u8>>,
    pieces: Pieces,
    compressor: Compressor<'static>,
    /// Begins with header and payload of the chunk being made.
    chunk: Vec<u8>,
    counters: Counters,
}

/// The list of the pieces of the store of input.
#[derive(Default)]
struct Pieces {
    /// Made with the first piece.
    file: Option<File>,
    /// Bytes in it.
    length: u64,
    /// Bytes in the store.
    end: u64,
}

#[derive(Default)]
struct Pending {
    /// Less than [`CHUNK_RAW_MAX`] bytes, unless writing failed.
    raw: Vec<u8>,
    sequence: u64,
}

impl TraceWriter {
    /// Begins a trace in `directory`, which must be empty or not exist.
    ///
    /// # Errors
    /// When it holds something already or cannot be written.
    pub fn create(directory: &Path, manifest: &Manifest) -> Result<Self> {
        let failed = |error| Error::write(directory, error);
        match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if std::fs::read_dir(directory)
                    .map_err(failed)?
                    .next()
                    .is_some()
                {
                    return Err(Error::NotEmpty {
                        path: directory.to_owned(),
                    });
                }
            }
            Err(error) => return Err(failed(error)),
        }
        let store = directory.join(files::NAME);
        DirBuilder::new()
            .mode(0o700)
            .create(&store)
            .map_err(|error| Error::write(&store, error))?;
        let kept = directory.join(input::NAME);
        create_private(&kept, false).map_err(|error| Error::write(&kept, error))?;
        let path = directory.join(TAPES);
        let file = create_private(&path, false).map_err(|error| Error::write(&path, error))?;
        let compressor =
            Compressor::new(COMPRESSION_LEVEL).map_err(|error| Error::write(&path, error))?;
        // Last, so that a folder with a manifest has all the rest.
        manifest.write(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            manifest: manifest.clone(),
            path,
            file,
            tapes: BTreeMap::new(),
            spare: Vec::new(),
            pieces: Pieces::default(),
            compressor,
            chunk: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// The trace's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The trace's copies of mapped files.
    pub fn files(&self) -> FileStore {
        FileStore::new(&self.directory)
    }

    /// Says which sites have been ordered, of those that were to be.
    pub fn orders(&mut self, sites: Vec<u64>) {
        self.manifest.sites = sites;
    }

    /// Adds encoded events to a tape; they may be cut anywhere. Full chunks are written.
    ///
    /// # Errors
    /// When a full chunk cannot be written; the bytes are kept, do not append them again.
    pub fn append(&mut self, tape: TapeId, bytes: &[u8]) -> Result<()> {
        let pending = self.tapes.entry(tape).or_default();
        if pending.raw.capacity() == 0 {
            // A reused buffer is in memory already; a full-size one need not be moved to grow.
            let fresh = || Vec::with_capacity(2 * CHUNK_RAW_MAX);
            pending.raw = self.spare.pop().unwrap_or_else(fresh);
        }
        pending.raw.extend_from_slice(bytes);
        if pending.raw.len() >= CHUNK_RAW_MAX {
            self.write(tape, CHUNK_RAW_MAX)?;
        }
        Ok(())
    }

    /// Appends to the list of pieces of the store of input. Their bytes must be there already, and
    /// events that refer to them must be added to the tapes later.
    ///
    /// # Errors
    /// When it cannot be written; then nothing was added.
    pub fn add_pieces(&mut self, pieces: &[Piece]) -> Result<()> {
        let Some(last) = pieces.last() else {
            return Ok(());
        };
        let path = self.directory.join(input::SUMS);
        let failed = |error| Error::write(&path, error);
        if self.pieces.file.is_none() {
            self.pieces.file = Some(create_private(&path, false).map_err(failed)?);
        }
        let mut bytes = Vec::with_capacity(pieces.len() * PIECE_LEN);
        for piece in pieces {
            piece.put(&mut bytes);
        }
        if let Some(file) = &self.pieces.file {
            write_whole(file, &bytes, self.pieces.length).map_err(failed)?;
        }
        self.pieces.length += bytes.len() as u64;
        self.pieces.end = last.end;
        Ok(())
    }

    /// Writes the events collected for one tape.
    ///
    /// # Errors
    /// When they cannot be written; they stay collected.
    pub fn flush(&mut self, tape: TapeId) -> Result<()> {
        self.write(tape, 1)
    }

    /// Writes the events collected for all tapes.
    ///
    /// # Errors
    /// As [`TraceWriter::flush`].
    pub fn flush_all(&mut self) -> Result<()> {
        let tapes: Vec<TapeId> = self.tapes.keys().copied().collect();
        tapes.into_iter().try_for_each(|tape| self.flush(tape))
    }

    /// Says where an excerpt begins, from now on also if it is cut off.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begins(&mut self, excerpt: Excerpt) -> Result<()> {
        self.manifest.excerpt = Some(excerpt);
        self.manifest.write(&self.directory)
    }

    /// Writes all collected events and marks the trace complete. The two numbers of bytes in
    /// `summary` are replaced by [`TraceWriter::counters`]; tapes that were cut have none.
    ///
    /// # Errors
    /// When something cannot be written: the trace then stays incomplete, but readable.
    pub fn finish(mut self, summary: Option<&Summary>) -> Result<Manifest> {
        self.flush_all()?;
        let mut manifest = self.manifest;
        manifest.complete = true;
        manifest.tapes_length = Some(self.counters.stored_bytes);
        let kept = self.directory.join(input::NAME);
        if self.pieces.end == 0 {
            // Empty, or half of a piece from a process that was killed.
            std::fs::remove_file(&kept).map_err(|error| Error::write(&kept, error))?;
        } else {
            manifest.input_length = Some(self.pieces.end);
        }
        manifest.summary = summary.map(|summary| Summary {
            raw_bytes: self.counters.raw_bytes,
            stored_bytes: self.counters.stored_bytes,
            ..summary.clone()
        });
        manifest.write(&self.directory)?;
        Ok(manifest)
    }

    /// Totals written so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Writes chunks while at least `least` bytes are collected.
    fn write(&mut self, tape: TapeId, least: usize) -> Result<()> {
        let Some(pending) = self.tapes.get_mut(&tape) else {
            return Ok(());
        };
        let mut done = 0;
        let mut result = Ok(());
        while pending.raw.len() - done >= least {
            let rest = &pending.raw[done..];
            let raw = &rest[..rest.len().min(CHUNK_RAW_MAX)];
            let written = fill_chunk(
                &mut self.compressor,
                &mut self.chunk,
                tape,
                pending.sequence,
                raw,
            )
            .and_then(|len| {
                let chunk = &self.chunk[..len];
                write_whole(&self.file, chunk, self.counters.stored_bytes).map(|()| len)
            });
            let len = match written {
                Ok(len) => len,
                Err(error) => {
                    result = Err(Error::write(&self.path, error));
                    break;
                }
            };
            pending.sequence += 1;
            done += raw.len();
            self.counters.chunks += 1;
            self.counters.raw_bytes += raw.len() as u64;
            self.counters.stored_bytes += len as u64;
        }
        pending.raw.drain(..done);
        if pending.raw.is_empty() {
            let raw = std::mem::take(&mut pending.raw);
            if raw.capacity() <= 4 * CHUNK_RAW_MAX && self.spare.len() < SPARE {
                self.spare.push(raw);
            }
        }
        result
    }
}

/// Puts the header and payload for `raw` at the beginning of `chunk`; returns their end.
fn fill_chunk(
    compressor: &mut Compressor<'static>,
    chunk: &mut Vec<u8>,
    tape: TapeId,
    sequence: u64,
    raw: &[u8],
) -> io::Result<usize> {
    let most = HEADER_LEN + zstd::zstd_safe::compress_bound(raw.len());
    if chunk.len() < most {
        chunk.resize(most, 0);
    }
    let compressed = compressor.compress_to_buffer(raw, &mut chunk[HEADER_LEN..])?;
    let shrunk = compressed < raw.len();
    let end = HEADER_LEN + compressed.min(raw.len());
    if !shrunk {
        chunk[HEADER_LEN..end].copy_from_slice(raw);
    }
    let header = Header::new(tape, sequence, raw.len(), shrunk, &chunk[HEADER_LEN..end]);
    chunk[..HEADER_LEN].copy_from_slice(&header.to_bytes());
    Ok(end)
}

/// Writes all of `bytes` at `offset`, or leaves the file ending there.
fn write_whole(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset).inspect_err(|_| {
        // If this fails as well, the torn chunk stays at the end, where readers expect one.
        let _ = file.set_len(offset);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trace;

    #[test]
    fn a_full_disk_loses_nothing_once_there_is_room() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("trace");
        let manifest = Manifest::new(Vec::new(), "/".into(), Vec::new());
        let mut writer = TraceWriter::create(&directory, &manifest).unwrap();
        let id = TapeId::new(0, 0);
        writer.append(id, &[1; 1000]).unwrap();
        writer.flush(id).unwrap();
        let before = writer.counters();

        let full = File::options().write(true).open("/dev/full").unwrap();
        let roomy = std::mem::replace(&mut writer.file, full);
        writer.append(id, &[2; 1000]).unwrap();
        let error = writer.flush(id).unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, Error::Full { .. }), "{message}");
        assert!(message.contains("tapes") && message.contains("RELIVE_TRACE_DIR"));
        let more = vec![3; 3 * CHUNK_RAW_MAX];
        assert!(writer.append(id, &more).is_err());
        assert_eq!(writer.counters(), before);

        writer.file = roomy;
        writer.flush_all().unwrap();
        let trace = Trace::open(&directory).unwrap();
        assert!(!trace.truncated());
        assert_eq!(trace.tapes()[0].raw_bytes, 2000 + more.len() as u64);
        assert_eq!(trace.tapes()[0].chunks, 1 + 4);
    }
}
