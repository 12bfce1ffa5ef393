//! Session images: the state of a recorded process at a position, from which a replay can go on. The
//! state itself is bytes here. Must never yield an image whose checksum is wrong.

use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zstd::bulk::Decompressor;

use crate::chunk::COMPRESSION_LEVEL;
use crate::cursor::{Cursor, DecodeError, Step};
use crate::error::{Error, Result};
use crate::files::{create_private, open_regular};
use crate::pages::{PAGE, word};
use crate::varint;

const MAGIC: [u8; 8] = *b"RLVIMAGE";
/// Bytes before the packed part.
const HEAD: usize = 88;
/// Bytes of the checksum behind it.
const SUM: usize = 8;
/// Longest image, packed and unpacked.
const MOST: u64 = 256 << 20;

/// The position and form of an image. It stands before the image's other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageHead {
    /// The form of the state: a reader takes its own only.
    pub layout: u32,
    /// Index of the process in the recording.
    pub process: u32,
    /// Events of the process that have happened.
    pub event: u64,
    /// Turns that its threads have taken.
    pub turn: u64,
    /// Ticks of the thread whose turn it is.
    pub ticks: u64,
    /// A measure of the way up to here, by which images are compared.
    pub work: u64,
    /// The checksum of the tapes that it belongs to: [`Trace::sum`](crate::Trace::sum).
    pub tapes: u64,
    /// Number of the next output of the recording, where an epoch begins; else 0.
    pub order: u64,
}

/// Pages of an image that follow each other in memory, and in the file of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRun {
    /// Address of the first.
    pub addr: u64,
    /// Number of the first in the file of pages.
    pub page: u64,
    /// How many.
    pub count: u64,
}

impl PageRun {
    /// Whether a page of this address and number is the next of the run.
    fn goes_on(&self, addr: u64, page: u64) -> bool {
        let len = self.count * PAGE as u64;
        (self.addr + len, self.page + self.count) == (addr, page)
    }
}

/// A session image without its pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionImage {
    /// See there.
    pub head: ImageHead,
    /// The number that it has in common with its file of pages.
    pub(crate) id: u64,
    /// The state, in the form of [`ImageHead::layout`].
    pub state: Vec<u8>,
    /// The pages of memory that differ from the map's contents without them, in the order of addresses.
    pub(crate) runs: Vec<PageRun>,
    /// Checksum of their content ([`MemorySum`]).
    pub(crate) memory: u64,
}

/// The checksum of an image's pages: addresses and content, in order.
pub(crate) struct MemorySum(Xxh3);

impl MemorySum {
    pub(crate) fn new() -> Self {
        Self(Xxh3::new())
    }

    pub(crate) fn add(&mut self, addr: u64, page: &[u8]) {
        self.0.update(&addr.to_le_bytes());
        self.0.update(page);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.digest()
    }
}

impl SessionImage {
    /// An image without pages so far.
    pub(crate) fn new(head: ImageHead, id: u64, state: Vec<u8>) -> Self {
        Self {
            head,
            id,
            state,
            runs: Vec::new(),
            memory: 0,
        }
    }

    /// Adds a page, above all that it has.
    pub(crate) fn add(&mut self, addr: u64, page: u64) {
        match self.runs.last_mut() {
            Some(run) if run.goes_on(addr, page) => run.count += 1,
            _ => self.runs.push(PageRun {
                addr,
                page,
                count: 1,
            }),
        }
    }

    /// Writes it into a new file; returns the file's length.
    pub(crate) fn write(&self, path: &Path) -> Result<u64> {
        let failed = |error| Error::write(path, error);
        let body = self.body();
        if body.len() as u64 > MOST {
            let text = "the state of the process is too large for an image";
            return Err(failed(std::io::Error::other(text)));
        }
        let packed = zstd::bulk::compress(&body, COMPRESSION_LEVEL).map_err(failed)?;
        let head = &self.head;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&head.layout.to_le_bytes());
        bytes.extend_from_slice(&head.process.to_le_bytes());
        let words = [
            head.event,
            head.turn,
            head.ticks,
            head.work,
            head.tapes,
            self.id,
            self.memory,
            body.len() as u64,
            head.order,
        ];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        debug_assert_eq!(bytes.len(), HEAD);
        bytes.extend_from_slice(&packed);
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        let file = create_private(path, false).map_err(failed)?;
        file.write_all_at(&bytes, 0).map_err(failed)?;
        Ok(bytes.len() as u64)
    }

    fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint::put_blob(&mut out, &self.state);
        varint::put(&mut out, self.runs.len() as u64);
        let (mut addr, mut page) = (0, 0);
        for run in &self.runs {
            varint::put(&mut out, (run.addr - addr) / PAGE as u64);
            varint::put(&mut out, run.count);
            varint::put(&mut out, varint::zigzag(run.page.wrapping_sub(page) as i64));
            addr = run.addr + run.count * PAGE as u64;
            page = run.page + run.count;
        }
        out
    }

    /// Reads one from a file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let damaged = |what| Error::Damaged {
            path: path.to_owned(),
            what,
        };
        let failed = |error| Error::read(path, error);
        let file = open_regular(path)?;
        let length = file.metadata().map_err(failed)?.len();
        if !((HEAD + SUM) as u64..MOST).contains(&length) {
            return Err(damaged("a session image of an impossible length"));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        Self::decode(&bytes).map_err(damaged)
    }

    /// From the bytes of a file, at least as many as a head and a checksum take.
    fn decode(bytes: &[u8]) -> std::result::Result<Self, &'static str> {
        let (bytes, sum) = bytes.split_at(bytes.len() - SUM);
        if xxh3_64(bytes) != word(sum, 0) {
            return Err("the checksum of a session image is wrong");
        }
        let (head, id) = head(bytes).ok_or("it is no session image")?;
        let (memory, raw) = (word(bytes, 64), word(bytes, 72));
        if raw > MOST {
            return Err("a session image of an impossible form");
        }
        let unpacked =
            Decompressor::new().and_then(|mut z| z.decompress(&bytes[HEAD..], raw as usize));
        let body = unpacked.map_err(|_| "a session image that does not unpack")?;
        if body.len() as u64 != raw {
            return Err("a session image that does not unpack to its length");
        }
        let (state, runs) = contents(&body).map_err(|error| match error {
            DecodeError::Incomplete => "a session image that ends too early",
            DecodeError::Corrupt { what, .. } => what,
        })?;
        Ok(Self {
            head,
            id,
            state,
            runs,
            memory,
        })
    }
}

fn contents(body: &[u8]) -> Step<(Vec<u8>, Vec<PageRun>)> {
    let mut cursor = Cursor::new(body);
    let state = cursor.blob()?.to_vec();
    let number = cursor.varint()?;
    // Each takes three bytes at least.
    if number > body.len() as u64 / 3 {
        return cursor.corrupt("more runs of pages than there is room for");
    }
    let mut runs = Vec::with_capacity(number as usize);
    let (mut addr, mut page) = (0u64, 0u64);
    for _ in 0..number {
        let before = cursor.clone();
        let (skip, count) = (cursor.varint()?, cursor.varint()?);
        page = page.wrapping_add(cursor.signed()? as u64);
        let bytes = |pages: u64| pages.checked_mul(PAGE as u64);
        let first = bytes(skip).and_then(|len| addr.checked_add(len));
        let end = first.and_then(|first| first.checked_add(bytes(count)?));
        let (Some(first), Some(end), Some(behind)) = (first, end, page.checked_add(count)) else {
            return before.corrupt("a run of pages behind all memory");
        };
        if count == 0 {
            return before.corrupt("a run without pages");
        }
        runs.push(PageRun {
            addr: first,
            page,
            count,
        });
        (addr, page) = (end, behind);
    }
    if !cursor.is_empty() {
        return cursor.corrupt("a session image with bytes behind its end");
    }
    Ok((state, runs))
}

/// The head at the beginning of a file, and the image's number.
fn head(bytes: &[u8]) -> Option<(ImageHead, u64)> {
    if bytes.len() < HEAD || bytes[..8] != MAGIC {
        return None;
    }
    let both = word(bytes, 8);
    let head = ImageHead {
        layout: both as u32,
        process: (both >> 32) as u32,
        event: word(bytes, 16),
        turn: word(bytes, 24),
        ticks: word(bytes, 32),
        work: word(bytes, 40),
        tapes: word(bytes, 48),
        order: word(bytes, 80),
    };
    Some((head, word(bytes, 56)))
}

/// The head of the image in a file, whose checksum is not looked at.
pub(crate) fn read_head(path: &Path) -> Result<ImageHead> {
    let file = open_regular(path)?;
    let mut bytes = [0; HEAD];
    let read = file.read_exact_at(&mut bytes, 0);
    let head = read.ok().and_then(|()| head(&bytes));
    head.map(|(head, _)| head).ok_or_else(|| Error::Damaged {
        path: path.to_owned(),
        what: "it is no session image",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(state: Vec<u8>, pages: &[(u64, u64)]) -> SessionImage {
        let head = ImageHead {
            layout: 3,
            process: 1,
            event: 7,
            turn: 2,
            ticks: 1 << 50,
            work: 1 << 40,
            tapes: 99,
            order: 3,
        };
        let mut image = SessionImage::new(head, 5, state);
        image.memory = 0x1234;
        pages
            .iter()
            .for_each(|(addr, page)| image.add(addr * PAGE as u64, *page));
        image
    }

    fn written(image: &SessionImage) -> Vec<u8> {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("image");
        image.write(&path).unwrap();
        assert_eq!(read_head(&path).unwrap(), image.head);
        assert_eq!(SessionImage::read(&path).unwrap(), *image);
        std::fs::read(path).unwrap()
    }

    /// The checksum behind the bytes made right, as a forger would.
    fn forged(mut bytes: Vec<u8>) -> Vec<u8> {
        let end = bytes.len() - SUM;
        let sum = xxh3_64(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&sum);
        bytes
    }

    proptest! {
        #[test]
        fn an_image_comes_back(
            state in prop::collection::vec(any::<u8>(), 0..200),
            gaps in prop::collection::vec((1u64..5, 0u64..9), 0..20),
        ) {
            let mut addr = 16;
            let pages: Vec<(u64, u64)> = gaps.iter().map(|(gap, page)| {
                addr += gap;
                (addr, *page)
            }).collect();
            written(&sample(state, &pages));
        }

        /// Whatever the bytes: an error, or an image in order.
        #[test]
        fn other_bytes_are_an_error_or_in_order(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            body in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let original = written(&sample(vec![1; 9], &[(1, 0), (2, 1), (9, 0)]));
            let mut bytes = original.clone();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
                prop_assert!(bytes == original || SessionImage::decode(&bytes).is_err());
            }
            let _ = SessionImage::decode(&forged(bytes));
            if let Ok((_, runs)) = contents(&body) {
                let end = |run: &PageRun| run.addr + run.count * PAGE as u64;
                prop_assert!(runs.windows(2).all(|two| end(&two[0]) <= two[1].addr));
            }
        }
    }

    #[test]
    fn an_image_that_ends_early_is_an_error() {
        let bytes = written(&sample(vec![1; 9], &[(1, 0)]));
        for len in HEAD + SUM..bytes.len() {
            assert!(SessionImage::decode(&bytes[..len]).is_err());
            assert!(SessionImage::decode(&forged(bytes[..len].to_vec())).is_err());
        }
    }
}
