//! The pages of session images, each content once: blocks of pages in one file, which only grows. A
//! page has the number of its place. Must never give out a page of a block whose checksum is wrong.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;
use zstd::bulk::{Compressor, Decompressor};

use crate::chunk::COMPRESSION_LEVEL;
use crate::error::{Error, Result};
use crate::files::{create_private, open_regular};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Most pages of a block.
const BLOCK: usize = 64;
const MAGIC: [u8; 8] = *b"RLVPAGES";
/// Bytes of the file's head, and of a block's.
const HEAD: u64 = 16;

/// Writes the pages of a file.
pub(crate) struct PageWriter {
    path: PathBuf,
    file: File,
    /// Bytes in the file.
    length: u64,
    /// The number of each content.
    known: HashMap<[u8; 32], u64>,
    /// The pages of the block that is being filled.
    block: Vec<u8>,
    compressor: Compressor<'static>,
}

impl PageWriter {
    /// A new file, for the images that have this number.
    pub(crate) fn create(path: &Path, id: u64) -> Result<Self> {
        let failed = |error| Error::write(path, error);
        let file = create_private(path, false).map_err(failed)?;
        let head = [MAGIC, id.to_le_bytes()].concat();
        file.write_all_at(&head, 0).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            length: HEAD,
            known: HashMap::new(),
            block: Vec::with_capacity(BLOCK * PAGE),
            compressor: Compressor::new(COMPRESSION_LEVEL).map_err(failed)?,
        })
    }

    /// The number of a page of this content, which is added if there is none.
    pub(crate) fn add(&mut self, page: &[u8; PAGE]) -> Result<u64> {
        let next = self.known.len() as u64;
        let hash = blake3::hash(page).into();
        if let Some(number) = self.known.get(&hash) {
            return Ok(*number);
        }
        self.known.insert(hash, next);
        self.block.extend_from_slice(page);
        if self.block.len() == BLOCK * PAGE {
            self.flush()?;
        }
        Ok(next)
    }

    /// Bytes in the file.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Writes the pages that were added since the last block. Numbers go on behind them.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let failed = |error| Error::write(&self.path, error);
        let packed = self.compressor.compress(&self.block).map_err(failed)?;
        let payload = match packed.len() < self.block.len() {
            true => &packed,
            false => &self.block,
        };
        let count = (self.block.len() / PAGE) as u32;
        let mut head = [count.to_le_bytes(), (payload.len() as u32).to_le_bytes()].concat();
        head.extend_from_slice(&sum(&head, payload).to_le_bytes());
        let whole = [&head, &payload[..]].concat();
        self.file
            .write_all_at(&whole, self.length)
            .map_err(failed)?;
        self.length += whole.len() as u64;
        self.block.clear();
        Ok(())
    }
}

fn sum(head: &[u8], payload: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(&head[..8]);
    sum.update(payload);
    sum.digest()
}

/// Where a block lies.
struct Block {
    /// The number of its first page.
    first: u64,
    count: u32,
    offset: u64,
    length: u32,
    sum: u64,
}

/// Reads the pages of a file.
pub(crate) struct PageReader {
    path: PathBuf,
    file: File,
    /// The number of its images.
    pub(crate) id: u64,
    blocks: Vec<Block>,
    /// The block that was read last, by its index.
    held: Option<(usize, Vec<u8>)>,
}

impl PageReader {
    /// Opens a file and finds its blocks. One that `grows` may have a part of a block at its end.
    pub(crate) fn open(path: &Path, grows: bool) -> Result<Self> {
        let failed = |error| Error::read(path, error);
        let damaged = |what| Error::Damaged {
            path: path.to_owned(),
            what,
        };
        let file = open_regular(path)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut head = [0; HEAD as usize];
        if length < HEAD {
            return Err(damaged("it is cut off"));
        }
        file.read_exact_at(&mut head, 0).map_err(failed)?;
        if head[..8] != MAGIC {
            return Err(damaged("it holds no pages"));
        }
        let id = word(&head, 8);
        let (mut blocks, mut offset, mut first) = (Vec::new(), HEAD, 0);
        while offset < length {
            if length - offset < HEAD {
                break;
            }
            file.read_exact_at(&mut head, offset).map_err(failed)?;
            let lengths = word(&head, 0);
            let (count, stored) = (lengths as u32, (lengths >> 32) as u32);
            let raw = u64::from(count) * PAGE as u64;
            if count == 0 || count as usize > BLOCK || stored == 0 || u64::from(stored) > raw {
                return Err(damaged("a block of an impossible length"));
            }
            if grows && offset + HEAD + u64::from(stored) > length {
                break;
            }
            blocks.push(Block {
                first,
                count,
                offset: offset + HEAD,
                length: stored,
                sum: word(&head, 8),
            });
            offset += HEAD + u64::from(stored);
            first += u64::from(count);
        }
        if offset != length && !grows {
            return Err(damaged("it is cut off"));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            id,
            blocks,
            held: None,
        })
    }

    /// Pages from this one on, as many as lie in its block, at most `most`.
    pub(crate) fn pages(&mut self, number: u64, most: u64) -> Result<&[u8]> {
        let damaged = |what| Error::Damaged {
            path: self.path.clone(),
            what,
        };
        let behind = self.blocks.partition_point(|block| block.first <= number);
        let at = behind.wrapping_sub(1);
        let block = self.blocks.get(at);
        let block = block.filter(|block| number - block.first < block.count.into());
        let block = block.ok_or_else(|| damaged("it lacks a page"))?;
        let from = number - block.first;
        let count = most.min(u64::from(block.count) - from);
        if !matches!(&self.held, Some((held, _)) if *held == at) {
            let mut stored = vec![0; block.length as usize];
            self.file
                .read_exact_at(&mut stored, block.offset)
                .map_err(|error| Error::read(&self.path, error))?;
            let head = u64::from(block.count) | u64::from(block.length) << 32;
            if sum(&head.to_le_bytes(), &stored) != block.sum {
                return Err(damaged("the checksum of a block of pages is wrong"));
            }
            let raw = block.count as usize * PAGE;
            if stored.len() < raw {
                let unpacked = Decompressor::new().and_then(|mut z| z.decompress(&stored, raw));
                stored = unpacked.map_err(|_| damaged("a block that does not unpack"))?;
            }
            if stored.len() != raw {
                return Err(damaged("a block that does not unpack to its length"));
            }
            self.held = Some((at, stored));
        }
        let pages = self.held.as_ref().map_or(&[][..], |(_, pages)| pages);
        let bytes = |pages: u64| pages as usize * PAGE;
        Ok(&pages[bytes(from)..bytes(from + count)])
    }
}

/// A word of eight bytes, little-endian; `bytes` reaches that far.
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}
