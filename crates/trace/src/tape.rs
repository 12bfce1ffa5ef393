//! Reading one tape, event by event.
//!
//! A reader holds the current chunk and, where an event straddles chunks, that event's bytes; never
//! the whole tape. A clone shares all of it and costs a few counters, so that every snapshot can
//! have its own.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bare::Bare;
use crate::chunk::CHUNK_RAW_MAX;
use crate::codec::Decoder;
use crate::cursor::DecodeError;
use crate::error::{Error, Result};
use crate::event::{Event, Kind, TapeId};
use crate::tapes::{Chunk, Tapes};

/// A position on a tape.
#[derive(Debug, Clone)]
pub struct TapeReader {
    id: TapeId,
    tapes: Arc<Tapes>,
    chunks: Arc<[Chunk]>,
    /// Index of the first chunk that is not in `data`.
    next_chunk: usize,
    data: Arc<Vec<u8>>,
    /// Where the next event begins in `data`.
    at: usize,
    /// The next event, once it is known to be whole.
    peeked: Option<Peeked>,
    decoder: Decoder,
    index: u64,
    /// Bytes of events before the end of `data`, in the whole recording.
    read: u64,
}

/// The kept facts of a peeked event: the event itself cannot be stored beside its bytes.
#[derive(Debug, Clone)]
struct Peeked {
    length: usize,
    behind: Decoder,
    outline: Outline,
}

/// A position on a tape, between two events, that can be written down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapeMark {
    /// Bytes of events before it.
    pub offset: u64,
    /// Events before it.
    pub event: u64,
    /// Ticks of the event before it.
    pub ticks: u64,
}

/// Facts about an event that are known without decoding it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline {
    /// [`Event::ticks`]
    pub ticks: u64,
    /// The event is a system call, as most are.
    pub syscall: bool,
}

impl TapeReader {
    /// At the beginning of a tape, which is that position of the whole recording.
    pub(crate) fn new(
        id: TapeId,
        tapes: Arc<Tapes>,
        chunks: Arc<[Chunk]>,
        base: &TapeMark,
    ) -> Self {
        Self {
            id,
            tapes,
            chunks,
            next_chunk: 0,
            data: Arc::default(),
            at: 0,
            peeked: None,
            decoder: Decoder::at(base.ticks),
            index: base.event,
            read: base.offset,
        }
    }

    /// A reader at a position that [`TapeReader::mark`] has returned for the same tape.
    pub(crate) fn at_mark(
        id: TapeId,
        tapes: Arc<Tapes>,
        chunks: Arc<[Chunk]>,
        base: &TapeMark,
        mark: &TapeMark,
    ) -> Result<Self> {
        let mut reader = Self::new(id, tapes, chunks, base);
        let rest = mark.offset.checked_sub(base.offset);
        let Some(mut rest) = rest.filter(|_| mark.event >= base.event) else {
            return Err(reader.damaged("a position before the beginning of its tape"));
        };
        for chunk in reader.chunks.iter() {
            match rest.checked_sub(chunk.header.raw_len.into()) {
                Some(behind) => rest = behind,
                None => break,
            }
            reader.next_chunk += 1;
            reader.read += u64::from(chunk.header.raw_len);
        }
        if rest != 0 {
            if !reader.read_chunk()? {
                return Err(reader.damaged("a position behind the end of its tape"));
            }
            // Less than the length of the chunk.
            reader.at = rest as usize;
        }
        (reader.index, reader.decoder) = (mark.event, Decoder::at(mark.ticks));
        Ok(reader)
    }

    /// Where it stands: before the event that [`TapeReader::next`] returns.
    #[must_use]
    pub fn mark(&self) -> TapeMark {
        TapeMark {
            offset: self.offset(),
            event: self.index,
            ticks: self.decoder.ticks(),
        }
    }

    /// Bytes of events before the one that [`TapeReader::next`] returns.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.read - (self.data.len() - self.at) as u64
    }

    /// Which tape this is.
    pub fn id(&self) -> TapeId {
        self.id
    }

    /// Number of events read: the index of the one that [`TapeReader::next`] returns.
    pub fn position(&self) -> u64 {
        self.index
    }

    /// Reads an event and goes past it; `None` at the end.
    ///
    /// # Errors
    /// When the chunk or the event is damaged; the reader then stays where it is. A
    /// recording that was cut off ends with the last whole event, without an error.
    #[expect(
        clippy::should_implement_trait,
        reason = "the event borrows from the reader, which an Iterator cannot express"
    )]
    pub fn next(&mut self) -> Result<Option<Event<'_>>> {
        let Some(length) = self.next_length()? else {
            return Ok(None);
        };
        let start = self.at;
        self.at += length;
        self.index += 1;
        self.peeked = None;
        let event = self.decoder.decode_again(&self.data[start..self.at]);
        Ok(Some(event.expect("the event was decoded before")))
    }

    /// Bytes of events up to the end of the next one; `None` at the end.
    ///
    /// # Errors
    /// As [`TapeReader::next`].
    pub fn end(&mut self) -> Result<Option<u64>> {
        let length = self.next_length()?;
        Ok(length.map(|length| self.offset() + length as u64))
    }

    /// The event that [`TapeReader::next`] will return, as often as one likes.
    ///
    /// # Errors
    /// As [`TapeReader::next`].
    pub fn peek(&mut self) -> Result<Option<Event<'_>>> {
        let Some(length) = self.next_length()? else {
            return Ok(None);
        };
        let bytes = &self.data[self.at..self.at + length];
        let event = self.decoder.clone().decode_again(bytes);
        Ok(Some(event.expect("the event was decoded before")))
    }

    /// Goes past an event that has been peeked at; `false` at the end.
    ///
    /// # Errors
    /// As [`TapeReader::next`].
    pub fn skip(&mut self) -> Result<bool> {
        if self.next_length()?.is_none() {
            return Ok(false);
        }
        if let Some(peeked) = self.peeked.take() {
            self.at += peeked.length;
            self.index += 1;
            self.decoder = peeked.behind;
        }
        Ok(true)
    }

    /// Outline of the next event; `None` at the end. Costs next to nothing, where
    /// [`TapeReader::peek`] decodes the event.
    ///
    /// # Errors
    /// As [`TapeReader::next`].
    pub fn outline(&mut self) -> Result<Option<Outline>> {
        Ok(match self.next_length()? {
            Some(_) => self.peeked.as_ref().map(|p| p.outline),
            None => None,
        })
    }

    /// Outline of the next event, if that is a bare system call and the bytes at hand show it:
    /// costs less than [`TapeReader::outline`].
    #[must_use]
    pub fn glance(&self) -> Option<Outline> {
        if let Some(peeked) = &self.peeked {
            return Some(peeked.outline).filter(|outline| outline.syscall);
        }
        let ticks = self.decoder.glance(self.data.get(self.at..)?)?;
        Some(Outline {
            ticks,
            syscall: true,
        })
    }

    /// Goes past this system call if it comes next and has only a result; returns that result. A
    /// call that is not recognised so is left for [`TapeReader::next`].
    pub fn bare(&mut self, call: &Bare<'_>) -> Option<i64> {
        let (result, length) = self.decoder.bare(self.data.get(self.at..)?, call)?;
        self.at += length;
        self.index += 1;
        self.peeked = None;
        Some(result)
    }

    /// Makes the next event whole in `data`.
    fn next_length(&mut self) -> Result<Option<usize>> {
        if let Some(peeked) = &self.peeked {
            return Ok(Some(peeked.length));
        }
        loop {
            let mut behind = self.decoder.clone();
            match behind.decode(&self.data[self.at..]) {
                Ok((event, length)) => {
                    let outline = Outline {
                        ticks: event.ticks,
                        syscall: matches!(event.kind, Kind::Syscall(_)),
                    };
                    self.peeked = Some(Peeked {
                        length,
                        behind,
                        outline,
                    });
                    return Ok(Some(length));
                }
                Err(DecodeError::Corrupt { what, .. }) => return Err(self.damaged(what)),
                Err(DecodeError::Incomplete) => {
                    if !self.read_chunk()? {
                        break;
                    }
                }
            }
        }
        if self.at < self.data.len() && self.tapes.whole {
            return Err(self.damaged("the tape ends inside it"));
        }
        Ok(None)
    }

    /// Appends a chunk to the rest of `data`; `false` when there is none.
    fn read_chunk(&mut self) -> Result<bool> {
        let Some(chunk) = self.chunks.get(self.next_chunk) else {
            return Ok(false);
        };
        let raw = u64::from(chunk.header.raw_len);
        // An event can be much longer than a chunk: then the buffer must grow in place, not
        // be copied for each chunk, and must not be kept afterwards.
        let rest = self.data.len() - self.at;
        let outgrown = self.data.capacity() > 4 * CHUNK_RAW_MAX && rest < CHUNK_RAW_MAX;
        match Arc::get_mut(&mut self.data).filter(|_| !outgrown) {
            Some(data) => {
                data.drain(..self.at);
                self.at = 0;
                self.tapes.read(chunk, data)?;
            }
            None => {
                let mut data = Vec::with_capacity(rest + CHUNK_RAW_MAX);
                data.extend_from_slice(&self.data[self.at..]);
                self.tapes.read(chunk, &mut data)?;
                self.data = Arc::new(data);
                self.at = 0;
            }
        }
        self.next_chunk += 1;
        self.read += raw;
        Ok(true)
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Event {
            path: self.tapes.path.clone(),
            tape: self.id,
            index: self.index,
            what,
        }
    }
}
