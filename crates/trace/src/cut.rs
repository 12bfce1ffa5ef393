//! Parts of a recording's tapes, copied into another recording, with the input that they refer to. Events
//! keep their bytes but for their places in the store of input. It must never write another event than it
//! has read.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::codec::Encoder;
use crate::error::{Error, Result};
use crate::event::{Event, Kind, Syscall, TapeId};
use crate::files::create_private;
use crate::input::{self, Input, Piece};
use crate::reader::Trace;
use crate::refs::{InputRef, Refs};
use crate::tape::{TapeMark, TapeReader};
use crate::writer::TraceWriter;

/// A part of a tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapePart {
    /// The tape.
    pub id: TapeId,
    /// Where the part begins.
    pub from: TapeMark,
    /// Events of the tape before its end; `None`: it has all that follow.
    pub to: Option<u64>,
}

impl TapePart {
    /// A reader at the beginning of the part.
    fn reader(&self, trace: &Trace) -> Result<TapeReader> {
        trace.tape_at(self.id, &self.from)
    }

    /// Whether the part ends where a reader of it stands.
    fn ends(&self, reader: &TapeReader) -> bool {
        self.to.is_some_and(|to| reader.position() >= to)
    }
}

/// Copies parts of tapes of a trace, at most one of each tape, into a new one, with the pieces of input that
/// they refer to. Chunks are written in the order of the trace's own.
///
/// # Errors
/// The trace is damaged, or the new one cannot be written.
pub fn copy_parts(trace: &Trace, parts: &[TapePart], to: &mut TraceWriter) -> Result<()> {
    let mut input = KeptInput::new(trace.input());
    for part in parts {
        let mut reader = part.reader(trace)?;
        while !part.ends(&reader) {
            match reader.next()? {
                Some(event) => input.keep(&event)?,
                None => break,
            }
        }
    }
    input.copy(to)?;
    let mut copies = BTreeMap::new();
    for part in parts {
        let reader = part.reader(trace)?;
        let encoder = Encoder::at(part.from.ticks);
        copies.insert(part.id, (*part, reader, encoder));
    }
    let mut bytes = Vec::new();
    for (id, end) in trace.chunk_ends() {
        let Some((part, reader, encoder)) = copies.get_mut(&id) else {
            continue;
        };
        while !part.ends(reader) && reader.offset() < end {
            let Some(event) = reader.next()? else { break };
            bytes.clear();
            input.moved(&event, &mut |event| encoder.encode(event, &mut bytes));
            to.append(id, &bytes)?;
        }
        to.flush(id)?;
    }
    Ok(())
}

/// The pieces of a store of input that are kept, and their places in the new one.
struct KeptInput<'a> {
    from: &'a Input,
    /// Whether each piece is kept.
    kept: Vec<bool>,
    /// Bytes that are not kept, before each piece.
    dropped: Vec<u64>,
}

impl<'a> KeptInput<'a> {
    fn new(from: &'a Input) -> Self {
        Self {
            kept: vec![false; from.pieces().len()],
            dropped: Vec::new(),
            from,
        }
    }

    /// Keeps the pieces that an event refers to.
    fn keep(&mut self, event: &Event<'_>) -> Result<()> {
        if let Kind::Syscall(call) = &event.kind {
            for r in &call.refs {
                for piece in self.from.touched(r.offset, r.length)? {
                    self.kept[piece] = true;
                }
            }
        }
        Ok(())
    }

    /// Writes them into the store of the new trace.
    fn copy(&mut self, to: &mut TraceWriter) -> Result<()> {
        let path = input::input_path(to.directory());
        let mut store: Option<File> = None;
        let base = self.from.base();
        let (mut dropped, mut start, mut bytes) = (base, base, Vec::new());
        for (index, kept) in self.kept.iter().enumerate() {
            let Piece { end, sum } = self.from.pieces()[index];
            self.dropped.push(dropped);
            if *kept {
                bytes.clear();
                self.from.read(start, end - start, &mut bytes)?;
                let new = Piece {
                    end: end - dropped,
                    sum,
                };
                append(&mut store, &path, &bytes, start - dropped)?;
                to.add_pieces(&[new])?;
            } else {
                dropped += end - start;
            }
            start = end;
        }
        Ok(())
    }

    /// Hands out an event as it is in the new trace.
    fn moved(&self, event: &Event<'_>, write: &mut dyn FnMut(&Event<'_>)) {
        let call = match &event.kind {
            Kind::Syscall(call) if !call.refs.is_empty() => *call,
            _ => return write(event),
        };
        let place = |r: InputRef| InputRef {
            offset: r.offset - self.dropped[self.from.piece_at(r.offset)],
            ..r
        };
        let refs: Vec<InputRef> = call.refs.iter().map(place).collect();
        let refs = Refs::new(&refs);
        write(&Event {
            kind: Kind::Syscall(Syscall { refs, ..call }),
            ..*event
        });
    }
}

fn append(store: &mut Option<File>, path: &Path, bytes: &[u8], at: u64) -> Result<()> {
    let failed = |error| Error::write(path, error);
    let file = match store {
        Some(file) => file,
        // In the place of the empty one that the writer has made.
        None => store.insert(create_private(path, true).map_err(failed)?),
    };
    file.write_all_at(bytes, at).map_err(failed)
}
