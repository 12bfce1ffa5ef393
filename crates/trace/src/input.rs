//! The store of input: bytes that the recorded program read, each once, which events refer
//! to by offset ([`crate::InputRef`]).
//!
//! `input` holds the bytes and nothing else, so that a process compares and copies in its map of
//! the file. It is only ever appended to. `input.sums` lists the *pieces* it came in, with a
//! checksum for each: bytes in no piece do not count, and nothing may be used before its piece was
//! checked.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::event::Syscall;
use crate::files::open_regular;

/// Name of the store in a trace.
pub(crate) const NAME: &str = "input";
/// Name of the list of its pieces.
pub(crate) const SUMS: &str = "input.sums";
/// Most bytes in one piece.
pub const PIECE_MAX: usize = 256 << 10;
/// Bytes that describe one piece.
pub(crate) const PIECE_LEN: usize = 16;
/// Most bytes in a store.
pub const INPUT_MAX: u64 = 1 << 38;

/// A piece of the store. It begins where the one before ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Offset behind its last byte.
    pub end: u64,
    /// [`input_sum`] of its bytes.
    pub sum: u64,
}

/// The checksum of a piece: XXH3-64 with seed 0.
#[must_use]
pub fn input_sum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

impl Piece {
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.end.to_le_bytes());
        out.extend_from_slice(&self.sum.to_le_bytes());
    }

    fn of(bytes: &[u8]) -> Self {
        let half = |at: usize| {
            let mut half = [0; 8];
            half.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(half)
        };
        Self {
            end: half(0),
            sum: half(8),
        }
    }
}

/// Path of the store of the trace in `directory`, to be appended to by the recorder.
#[must_use]
pub fn input_path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// The store of a trace that is read. Clones share it.
#[derive(Debug, Clone)]
pub struct Input {
    path: PathBuf,
    /// `None`: the trace has no input.
    file: Option<Arc<File>>,
    /// Where the first piece begins: an excerpt may lack those before.
    base: u64,
    pieces: Arc<[Piece]>,
    /// Not 0: the piece was checked.
    checked: Arc<[AtomicU8]>,
}

impl Input {
    /// Opens the store of a trace, whose first piece begins at `base`. `recorded` is the end of the last one that the
    /// manifest of a complete recording states. `true`: some of it is missing.
    pub(crate) fn open(directory: &Path, base: u64, recorded: Option<u64>) -> Result<(Self, bool)> {
        let path = directory.join(NAME);
        let sums = directory.join(SUMS);
        let list = match open_regular(&sums) {
            Err(Error::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                None
            }
            other => Some(other?),
        };
        let mut pieces = Vec::new();
        let mut torn = false;
        let mut file = None;
        if let Some(list) = list {
            let data = open_regular(&path)?;
            let there = |file: &File, path: &Path| {
                let meta = file.metadata().map_err(|error| Error::read(path, error))?;
                Ok::<_, Error>(meta.len())
            };
            let length = there(&data, &path)?;
            let ends = base.saturating_add(length);
            (pieces, torn) = read_pieces(&list, &sums, there(&list, &sums)?, base, ends)?;
            file = Some(Arc::new(data));
        }
        let end = pieces.last().map_or(base, |piece: &Piece| piece.end);
        match recorded {
            Some(recorded) if end > recorded => {
                return Err(Error::Damaged {
                    path: sums,
                    what: "more pieces than a complete recording has",
                });
            }
            Some(recorded) => torn |= end < recorded,
            None => {}
        }
        let checked = pieces.iter().map(|_| AtomicU8::new(0)).collect();
        let input = Self {
            path,
            file,
            base,
            pieces: pieces.into(),
            checked,
        };
        Ok((input, torn))
    }

    /// The end of the last byte.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.pieces.last().map_or(self.base, |piece| piece.end)
    }

    /// The offset of the first byte, with which the file begins.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The file: it reached from [`Input::base`] to [`Input::length`] when it was opened, at least.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        self.file.as_deref()
    }

    /// All pieces.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The piece that a byte is in.
    pub(crate) fn piece_at(&self, offset: u64) -> usize {
        self.pieces.partition_point(|piece| piece.end <= offset)
    }

    /// The pieces that a range touches.
    pub(crate) fn touched(&self, offset: u64, length: u64) -> Result<Range<usize>> {
        let end = self.end(offset, length)?;
        Ok(self.piece_at(offset)..self.piece_at(end - 1) + 1)
    }

    /// The end of a range of the store, which is not empty.
    fn end(&self, offset: u64, length: u64) -> Result<u64> {
        offset
            .checked_add(length)
            .filter(|end| length > 0 && offset >= self.base && *end <= self.length())
            .ok_or_else(|| self.damaged("an event refers to bytes that it does not hold"))
    }

    /// The unchecked pieces that a range touches: index and byte range of each.
    ///
    /// # Errors
    /// When the store has no such range.
    pub fn unchecked(
        &self,
        offset: u64,
        length: u64,
    ) -> Result<impl Iterator<Item = (usize, Range<u64>)>> {
        let end = self.end(offset, length)?;
        let first = self.piece_at(offset);
        let starts = move |i: usize| match i {
            0 => self.base,
            i => self.pieces[i - 1].end,
        };
        Ok((first..self.pieces.len())
            .take_while(move |i| starts(*i) < end)
            .filter(|i| self.checked[*i].load(Ordering::Relaxed) == 0)
            .map(move |i| (i, starts(i)..self.pieces[i].end)))
    }

    /// Checks the bytes of a piece, and marks the piece as checked.
    ///
    /// # Errors
    /// When they differ from the recorded ones.
    pub fn check(&self, piece: usize, bytes: &[u8]) -> Result<()> {
        if self.pieces[piece].sum != input_sum(bytes) {
            return Err(self.damaged("the checksum of a piece is wrong"));
        }
        self.checked[piece].store(1, Ordering::Relaxed);
        Ok(())
    }

    /// Appends the bytes of a range, checked, to `out`.
    ///
    /// # Errors
    /// When the store has no such range, or its bytes differ from the recorded ones.
    pub fn read(&self, offset: u64, length: u64, out: &mut Vec<u8>) -> Result<()> {
        let mut piece = Vec::new();
        for (index, range) in self.unchecked(offset, length)? {
            piece.resize((range.end - range.start) as usize, 0);
            self.read_at(&mut piece, range.start)?;
            self.check(index, &piece)?;
        }
        let start = out.len();
        out.resize(start + length as usize, 0);
        self.read_at(&mut out[start..], offset)
    }

    /// The bytes that a system call wrote into guest memory: by value first, then by reference.
    ///
    /// # Errors
    /// When the store lacks bytes that the call refers to.
    pub fn written(&self, call: &Syscall<'_>) -> Result<Vec<(u64, Vec<u8>)>> {
        let by_value = call.writes.iter().map(|(at, bytes)| (at, bytes.to_vec()));
        let mut all: Vec<_> = by_value.collect();
        for r in &call.refs {
            let mut bytes = Vec::new();
            self.read(r.offset, r.length, &mut bytes)?;
            all.push((r.address, bytes));
        }
        Ok(all)
    }

    /// Checks all pieces.
    ///
    /// # Errors
    /// At the first piece whose bytes differ from the recorded ones.
    pub fn verify(&self) -> Result<()> {
        let (mut start, mut piece) = (self.base, Vec::new());
        for (index, Piece { end, .. }) in self.pieces.iter().enumerate() {
            piece.resize((end - start) as usize, 0);
            self.read_at(&mut piece, start)?;
            self.check(index, &piece)?;
            start = *end;
        }
        Ok(())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        let file = self.file.as_ref().ok_or_else(|| self.damaged("missing"))?;
        file.read_exact_at(bytes, offset - self.base)
            .map_err(|error| Error::read(&self.path, error))
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            what,
        }
    }
}

/// All whole pieces from an offset on whose bytes are there, and whether some are missing.
fn read_pieces(
    list: &File,
    path: &Path,
    length: u64,
    base: u64,
    data: u64,
) -> Result<(Vec<Piece>, bool)> {
    let (mut pieces, mut before) = (Vec::new(), base);
    let mut block = vec![0; 4096 * PIECE_LEN];
    let mut at = 0;
    while at < length {
        let n = (length - at).min(block.len() as u64) as usize;
        list.read_exact_at(&mut block[..n], at)
            .map_err(|error| Error::read(path, error))?;
        for bytes in block[..n].chunks(PIECE_LEN) {
            // A crash leaves a torn end; one of the whole machine may leave zeros there.
            if bytes.len() < PIECE_LEN || bytes.iter().all(|b| *b == 0) {
                return Ok((pieces, true));
            }
            let piece = Piece::of(bytes);
            if piece.end <= before || piece.end - before > PIECE_MAX as u64 || piece.end > INPUT_MAX
            {
                return Err(Error::Damaged {
                    path: path.to_owned(),
                    what: "a piece of impossible length",
                });
            }
            if piece.end > data {
                return Ok((pieces, true));
            }
            before = piece.end;
            pieces.push(piece);
        }
        at += n as u64;
    }
    Ok((pieces, false))
}
