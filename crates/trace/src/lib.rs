//! The recording on disk: format, reader and writer.
//!
//! A *trace* is a directory (mode 0700):
//!
//! | entry | content |
//! | --- | --- |
//! | `manifest.json` | the program recorded, the machine, and the format version ([`Manifest`]) |
//! | `tapes` | every thread's events, as checksummed, compressed chunks ([`TraceWriter`], [`Trace`]) |
//! | `files/<blake3>` | copies of the files that the guest mapped ([`FileStore`]) |
//! | `index/` | session images, from which replays go on ([`IndexWriter`], [`ImageReader`]) |
//! | `begin/` | session images, with which an excerpt begins ([`Excerpt`]) |
//! | `input`, `input.sums` | bytes that the guest read, which events refer to ([`Input`]) |
//!
//! A *tape* is one thread's history: a byte stream of self-delimiting [`Event`]s in order.
//! `docs/trace-format.md` describes every byte.
//!
//! This crate must never interpret a syscall, a register or a signal: it carries bytes.
//! A trace may come from a stranger, so no input may make the reader panic, loop, follow a
//! link out of the directory or allocate out of proportion; and a damaged trace yields an
//! error or a prefix of the true events, never other events.

#![forbid(unsafe_code)]

mod bare;
mod bytes;
mod chunk;
mod codec;
mod cursor;
mod cut;
mod error;
mod event;
mod excerpt;
mod file_id;
mod files;
mod growing;
mod image;
mod index;
mod input;
mod locations;
mod manifest;
mod pages;
mod part;
mod reader;
mod readings;
mod recent_tapes;
mod refs;
mod session;
mod short;
mod tape;
mod tapes;
mod varint;
mod version;
mod writer;
mod writes;

pub use bare::Bare;
pub use bytes::Bytes;
pub use chunk::CHUNK_RAW_MAX;
pub use codec::{Decoder, Encoder};
pub use cursor::{BLOB_MAX, DecodeError};
pub use cut::{TapePart, copy_parts};
pub use error::{Error, Result};
pub use event::{Args, Ending, Event, Kind, Origin, Signal, Start, Syscall, TapeId};
pub use excerpt::{BeginProcess, BeginTape, Excerpt};
pub use file_id::FileId;
pub use files::{FileStore, KeptPart};
pub use growing::GrowingTapes;
pub use image::{Image, MapKind, MapOp, StreamFd};
pub use index::{
    ImageReader, ImageSet, ImageWriter, IndexWriter, UNFINISHED_INDEX, become_images, image_name,
    images_of, link_images,
};
pub use input::{INPUT_MAX, Input, PIECE_MAX, Piece, input_path, input_sum};
pub use locations::{Listed, default_dir, list, new_numbered, resolve, resolve_in, set_latest};
pub use manifest::{
    Cpu, ExitStatus, FoundEpoch, Manifest, Recorder, Summary, System, manifest_file,
};
pub use part::{Encoded, FileSource, INLINE_MAX, Part, PartReader, PartSource, Run};

pub use reader::{TapeInfo, Trace, exact_folder};
pub use readings::{Reading, Readings, SOURCES};
pub use recent_tapes::RecentTapes;
pub use refs::{InputRef, Refs, RefsIter};
pub use session::ImageHead;
pub use short::{Short, WIDE};
pub use tape::{Outline, TapeMark, TapeReader};
pub use version::{EXCERPT_FORMAT, FORMAT, Version};
pub use writer::{Counters, TraceWriter};
pub use writes::{Writes, WritesIter};
