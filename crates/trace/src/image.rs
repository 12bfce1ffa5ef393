//! A program image as exec sets it up, so that replay repeats it without any loader logic.
//!
//! Carried by [`crate::Kind::Exec`] as bytes of its own. The order of `maps` is the order in
//! which they are made; `writes` come after all of them.

use crate::cursor::{Cursor, DecodeError, Step};
use crate::error::{Error, Result};
use crate::file_id::FileId;
use crate::varint;

/// First byte of an encoded image; another one is another layout.
const LAYOUT: u8 = 1;

/// Initial state of a new program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Image {
    /// Path of the executable, as `/proc/self/exe` shows it.
    pub path: Vec<u8>,
    /// Arguments.
    pub argv: Vec<Vec<u8>>,
    /// Environment, `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// Memory maps, in the order in which they are made.
    pub maps: Vec<MapOp>,
    /// Guest addresses and bytes to write there (stack, relocated or cleared data), whatever
    /// the protection of the page.
    pub writes: Vec<(u64, Vec<u8>)>,
    /// Guest address of the first instruction.
    pub rip: u64,
    /// Stack pointer.
    pub rsp: u64,
    /// Initial program break.
    pub brk: u64,
    /// Descriptors that lead to the recording's standard output and error.
    pub streams: Vec<StreamFd>,
}

/// One memory map of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapOp {
    /// Guest address, a multiple of the page size.
    pub addr: u64,
    /// Bytes, a multiple of the page size.
    pub len: u64,
    /// Protection, the bits of mmap(2).
    pub prot: u8,
    /// Content of the map.
    pub kind: MapKind,
    /// Name in `/proc/self/maps`; may be empty.
    pub name: String,
}

/// Content of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// Zeros.
    Anon,
    /// A private map of a file kept in the trace.
    File {
        /// Its content.
        file: FileId,
        /// Offset in it, a multiple of the page size.
        offset: u64,
    },
}

/// A guest descriptor that is one of the streams of [`crate::Syscall::stream`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFd {
    /// Guest descriptor.
    pub fd: u32,
    /// 1 standard output, 2 standard error.
    pub stream: u8,
}

impl Image {
    /// Appends the encoded image.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(LAYOUT);
        varint::put_blob(out, &self.path);
        for strings in [&self.argv, &self.env] {
            varint::put(out, strings.len() as u64);
            for string in strings {
                varint::put_blob(out, string);
            }
        }
        varint::put(out, self.maps.len() as u64);
        for map in &self.maps {
            map.put(out);
        }
        varint::put(out, self.writes.len() as u64);
        for (address, bytes) in &self.writes {
            varint::put(out, *address);
            varint::put_blob(out, bytes);
        }
        for number in [self.rip, self.rsp, self.brk, self.streams.len() as u64] {
            varint::put(out, number);
        }
        for StreamFd { fd, stream } in &self.streams {
            varint::put(out, (*fd).into());
            out.push(*stream);
        }
    }

    /// Reads an image that takes up all of `bytes`.
    ///
    /// # Errors
    /// [`Error::Image`] when they are not exactly one image.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        image(bytes).map_err(|error| match error {
            DecodeError::Incomplete => Error::Image {
                at: bytes.len(),
                what: "it ends too early",
            },
            DecodeError::Corrupt { at, what } => Error::Image { at, what },
        })
    }
}

impl MapOp {
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.addr);
        varint::put(out, self.len);
        match self.kind {
            MapKind::Anon => out.extend_from_slice(&[self.prot, 0]),
            MapKind::File { file, offset } => {
                out.extend_from_slice(&[self.prot, 1]);
                out.extend_from_slice(&file.0);
                varint::put(out, offset);
            }
        }
        varint::put_blob(out, self.name.as_bytes());
    }
}

fn image(bytes: &[u8]) -> Step<Image> {
    let mut cursor = Cursor::new(bytes);
    let before = cursor.clone();
    if cursor.byte()? != LAYOUT {
        return before.corrupt("an unknown layout");
    }
    let cursor = &mut cursor;
    let string = |cursor: &mut Cursor<'_>| Ok(cursor.blob()?.to_vec());
    let image = Image {
        path: string(cursor)?,
        argv: many(cursor, string)?,
        env: many(cursor, string)?,
        maps: many(cursor, map)?,
        writes: many(cursor, |cursor| Ok((cursor.varint()?, string(cursor)?)))?,
        rip: cursor.varint()?,
        rsp: cursor.varint()?,
        brk: cursor.varint()?,
        streams: many(cursor, |cursor| {
            Ok(StreamFd {
                fd: cursor.varint_u32()?,
                stream: cursor.byte()?,
            })
        })?,
    };
    if !cursor.is_empty() {
        return cursor.corrupt("bytes after its end");
    }
    Ok(image)
}

fn map(cursor: &mut Cursor<'_>) -> Step<MapOp> {
    let addr = cursor.varint()?;
    let len = cursor.varint()?;
    let prot = cursor.byte()?;
    let before = cursor.clone();
    let kind = match cursor.byte()? {
        0 => MapKind::Anon,
        1 => MapKind::File {
            file: FileId(cursor.fixed()?),
            offset: cursor.varint()?,
        },
        _ => return before.corrupt("an unknown kind of map"),
    };
    let before = cursor.clone();
    let Ok(name) = std::str::from_utf8(cursor.blob()?) else {
        return before.corrupt("a name that is not UTF-8");
    };
    Ok(MapOp {
        addr,
        len,
        prot,
        kind,
        name: name.to_owned(),
    })
}

/// A count and that many items. The count is not trusted with an allocation: the vector
/// grows as items, of at least one byte each, turn out to be there.
fn many<'a, T>(
    cursor: &mut Cursor<'a>,
    mut item: impl FnMut(&mut Cursor<'a>) -> Step<T>,
) -> Step<Vec<T>> {
    let count = cursor.varint()?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(cursor)?);
    }
    Ok(items)
}
