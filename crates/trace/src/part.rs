//! Parts of files: the range of a file that a shared map shows, and nothing else. Zeros take no
//! bytes, so that a part of a file with holes is small, however long it is. A small part lies in
//! the event of its map; any other one is a copy like those of whole files, named by the hash of
//! its encoding.
//!
//! A part may come from a stranger: it yields runs of bytes in order, inside of the part and of the
//! file, or an error. It must never be read without its bounds.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;

/// Magic bytes of each part.
const MAGIC: [u8; 8] = *b"RLVPART1";
/// Length of the header in front of the first run.
const HEAD: usize = 32;
/// Length of a run's header.
const RUN: usize = 16;
/// Bytes processed at a time; no run is longer.
const BLOCK: usize = 256 << 10;
/// Aligned blocks of zeros of this size are in no run.
const PAGE: usize = 4096;
/// Longest encoding of a part that is kept with its event.
pub const INLINE_MAX: usize = 8192;

/// A range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it starts, in whole pages.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// Size of the file, which may be anything.
    pub size: u64,
}

impl Part {
    /// End of the bytes that can be there.
    fn reach(&self) -> u64 {
        self.end.min(self.size)
    }

    fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&MAGIC);
        for (at, value) in [(8, self.start), (16, self.end), (24, self.size)] {
            head[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        head
    }
}

/// Source of a part's bytes.
pub trait PartSource {
    /// The next range at or behind an offset that may hold bytes other than zeros; `None`: there is
    /// none.
    ///
    /// # Errors
    /// When it cannot be determined.
    fn data(&mut self, at: u64) -> io::Result<Option<(u64, u64)>>;

    /// Fills a buffer, whose length is a whole number of pages, from an offset on; less at the end.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
}

/// A file.
pub struct FileSource<'a> {
    /// To read from; its file offset is not used.
    pub file: &'a File,
    /// The same file by a descriptor of its own, whose file offset is free; `None`: it has no
    /// holes, or their places are unknown.
    pub holes: Option<File>,
}

impl PartSource for FileSource<'_> {
    fn data(&mut self, at: u64) -> io::Result<Option<(u64, u64)>> {
        let Some(file) = &self.holes else {
            return Ok(Some((at, u64::MAX)));
        };
        // A range that the system cannot classify may hold bytes.
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            start => start.unwrap_or(at),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start));
        Ok(Some((start, end.unwrap_or(u64::MAX))))
    }

    fn read(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let file = self.holes.as_ref().unwrap_or(self.file);
        loop {
            match file.read_at(buffer, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// Encodes a part, piece by piece.
pub(crate) fn encode(
    part: Part,
    source: &mut dyn PartSource,
    mut emit: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    emit(&part.head())?;
    let mut room = vec![0; BLOCK + PAGE];
    let skip = room.as_ptr().align_offset(PAGE);
    let buffer = &mut room[skip..][..BLOCK];
    let mut at = part.start;
    while at < part.reach() {
        let Some((start, end)) = source.data(at)? else {
            break;
        };
        at = at.max(start - start % PAGE as u64);
        let end = end.min(part.end);
        while at < end.min(part.reach()) {
            // The same content has one encoding, wherever the file's holes are.
            let block = BLOCK - at as usize % BLOCK;
            let pages = (end - at).div_ceil(PAGE as u64);
            let len = (pages as usize).saturating_mul(PAGE).min(block);
            let n = source.read(&mut buffer[..len], at)?;
            let n = n.min((part.reach() - at) as usize);
            runs(&buffer[..n], at, &mut emit)?;
            at += n as u64;
            if !n.is_multiple_of(PAGE) || n == 0 {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The runs of pages that are not zeros.
fn runs(bytes: &[u8], at: u64, emit: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let is_empty = |page: &[u8]| page.iter().all(|&byte| byte == 0);
    let mut start = None;
    let pages = bytes.chunks(PAGE).map(is_empty).chain([true]);
    for (k, empty) in pages.enumerate() {
        match (start, empty) {
            (None, false) => start = Some(k * PAGE),
            (Some(from), true) => {
                let run = &bytes[from..bytes.len().min(k * PAGE)];
                emit(&(at + from as u64).to_le_bytes())?;
                emit(&(run.len() as u64).to_le_bytes())?;
                emit(run)?;
                start = None;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Where the encoding of a part lies.
#[derive(Clone, Copy, Debug)]
pub enum Encoded<'a> {
    /// In a copy of this length.
    Copy(&'a File, u64),
    /// In an event.
    Inline(&'a [u8]),
}

impl Encoded<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Copy(_, len) => *len,
            Self::Inline(bytes) => bytes.len() as u64,
        }
    }

    fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Self::Copy(file, _) => file.read_exact_at(buffer, at),
            Self::Inline(bytes) => {
                let from = bytes.get(at as usize..).unwrap_or_default();
                let from = from.get(..buffer.len()).ok_or_else(damaged)?;
                buffer.copy_from_slice(from);
                Ok(())
            }
        }
    }

    fn words<const N: usize>(&self, at: u64) -> io::Result<[u64; N]> {
        let mut words = [[0; 8]; N];
        self.read(words.as_flattened_mut(), at)?;
        Ok(words.map(u64::from_le_bytes))
    }
}

/// Bytes of a part that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Offset in the file.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// Offset in the encoding.
    at: u64,
}

/// Reads a part.
#[derive(Debug)]
pub struct PartReader<'a> {
    part: Part,
    encoded: Encoded<'a>,
    /// The next run in the encoding.
    next: u64,
    /// No run begins before this in the file.
    least: u64,
}

impl<'a> PartReader<'a> {
    /// Begins to read a part.
    ///
    /// # Errors
    /// When the bytes are not a part, or cannot be read.
    pub fn new(encoded: Encoded<'a>) -> io::Result<Self> {
        let [magic, start, end, size] = encoded.words(0)?;
        let part = Part { start, end, size };
        let whole = [start, end].iter().all(|at| at.is_multiple_of(PAGE as u64));
        if magic != u64::from_le_bytes(MAGIC) || start > end || !whole {
            return Err(damaged());
        }
        Ok(Self {
            part,
            encoded,
            next: HEAD as u64,
            least: start,
        })
    }

    /// The range of the file.
    #[must_use]
    pub fn part(&self) -> Part {
        self.part
    }

    /// The next run; they come in the file's order, and do not overlap.
    ///
    /// # Errors
    /// When it is not inside of the part, or cannot be read.
    pub fn run(&mut self) -> io::Result<Option<Run>> {
        if self.next == self.encoded.len() {
            return Ok(None);
        }
        let [offset, len] = self.encoded.words(self.next)?;
        let at = self.next + RUN as u64;
        let end = offset.checked_add(len).ok_or_else(damaged)?;
        if len == 0
            || offset < self.least
            || end > self.part.reach()
            || len > self.encoded.len() - at
        {
            return Err(damaged());
        }
        (self.next, self.least) = (at + len, end);
        Ok(Some(Run { offset, len, at }))
    }

    /// Fills a buffer with bytes of a run, beginning at an offset in the run.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(&self, run: &Run, buffer: &mut [u8], from: u64) -> io::Result<()> {
        self.encoded.read(buffer, run.at + from)
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a part of a file is damaged")
}
