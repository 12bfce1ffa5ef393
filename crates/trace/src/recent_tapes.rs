//! The last part of each tape, in memory: what a recording that keeps its last seconds could still need. Must never drop
//! a byte behind a place that it has been told to keep.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use zstd::bulk::{Compressor, Decompressor};

use crate::chunk::COMPRESSION_LEVEL;
use crate::codec::Decoder;
use crate::cursor::DecodeError;
use crate::event::{Event, Kind, TapeId};
use crate::tape::TapeMark;

/// Bytes of a block before it is compressed.
const BLOCK: usize = 256 << 10;

/// All tapes.
pub struct RecentTapes {
    tapes: BTreeMap<TapeId, TapeEnd>,
    compressor: Compressor<'static>,
}

/// The last part of one tape.
#[derive(Default)]
struct TapeEnd {
    /// Where the first byte that is here stands on the tape.
    base: u64,
    blocks: VecDeque<RecentBlock>,
    /// Behind the blocks.
    rest: Vec<u8>,
}

struct RecentBlock {
    raw: usize,
    packed: Vec<u8>,
}

impl TapeEnd {
    /// Where it ends.
    fn end(&self) -> u64 {
        let blocks: usize = self.blocks.iter().map(|block| block.raw).sum();
        self.base + (blocks + self.rest.len()) as u64
    }
}

impl RecentTapes {
    /// No tapes.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            tapes: BTreeMap::new(),
            compressor: Compressor::new(COMPRESSION_LEVEL)?,
        })
    }

    /// Adds bytes to a tape.
    ///
    /// # Errors
    /// There is no memory.
    pub fn append(&mut self, id: TapeId, bytes: &[u8]) -> io::Result<()> {
        let tape = self.tapes.entry(id).or_default();
        tape.rest.extend_from_slice(bytes);
        while tape.rest.len() >= BLOCK {
            let packed = self.compressor.compress(&tape.rest[..BLOCK])?;
            tape.blocks.push_back(RecentBlock { raw: BLOCK, packed });
            tape.rest.drain(..BLOCK);
        }
        Ok(())
    }

    /// So many bytes more of a tape have gone elsewhere; what was here is not needed any more.
    pub fn pass(&mut self, id: TapeId, bytes: u64) {
        let tape = self.tapes.entry(id).or_default();
        tape.base = tape.end() + bytes;
        (tape.blocks, tape.rest) = Default::default();
    }

    /// Whether all tapes that go on from these places are here from there on.
    #[must_use]
    pub fn begin_by(&self, places: &BTreeMap<TapeId, TapeMark>) -> bool {
        let base = |id| self.tapes.get(id).map_or(0, |tape| tape.base);
        places.iter().all(|(id, mark)| base(id) <= mark.offset)
    }

    /// The first bytes of a tape, as long as all of it is here and it is short.
    #[must_use]
    pub fn beginning(&self, id: TapeId) -> &[u8] {
        let tape = self.tapes.get(&id);
        let whole = tape.filter(|tape| tape.base == 0 && tape.blocks.is_empty());
        whole.map_or(&[], |tape| &tape.rest)
    }

    /// Drops what stands before these places, and all tapes that `needed` does not want.
    pub fn forget(&mut self, places: &BTreeMap<TapeId, u64>, needed: impl Fn(TapeId) -> bool) {
        self.tapes.retain(|id, _| needed(*id));
        for (id, place) in places {
            let Some(tape) = self.tapes.get_mut(id) else {
                continue;
            };
            while let Some(block) = tape.blocks.front()
                && tape.base + block.raw as u64 <= *place
            {
                tape.base += block.raw as u64;
                tape.blocks.pop_front();
            }
            // A window of few bytes has no block.
            if tape.blocks.is_empty() {
                let gone = (place.saturating_sub(tape.base) as usize).min(tape.rest.len());
                tape.rest.drain(..gone);
                tape.base += gone as u64;
            }
        }
    }

    /// The tapes that are here.
    pub fn ids(&self) -> impl Iterator<Item = TapeId> {
        self.tapes.keys().copied()
    }

    /// Bytes that they take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let of = |tape: &TapeEnd| {
            let packed: usize = tape.blocks.iter().map(|block| block.packed.len()).sum();
            (packed + tape.rest.len()) as u64
        };
        self.tapes.values().map(of).sum()
    }

    /// Hands out a tape from a place on.
    ///
    /// # Errors
    /// It does not begin so early, or `each` fails.
    pub fn read<E: From<io::Error>>(
        &self,
        id: TapeId,
        from: u64,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(tape) = self.tapes.get(&id) else {
            return Ok(());
        };
        let skip = from.checked_sub(tape.base);
        let mut skip = skip.ok_or_else(|| io::Error::other("a tape has lost its beginning"))?;
        let mut give = |bytes: &[u8]| {
            let less = skip.min(bytes.len() as u64);
            skip -= less;
            match &bytes[less as usize..] {
                [] => Ok(()),
                rest => each(rest),
            }
        };
        let mut unpack = Decompressor::new()?;
        for block in &tape.blocks {
            give(&unpack.decompress(&block.packed, block.raw)?)?;
        }
        give(&tape.rest)
    }

    /// Adds the numbers of the outputs on a tape behind a mark that are below a bound to `found`.
    ///
    /// # Errors
    /// As [`RecentTapes::events`].
    pub fn outputs(
        &self,
        id: TapeId,
        from: TapeMark,
        below: u64,
        found: &mut Vec<u64>,
    ) -> io::Result<()> {
        // They are in order on a tape.
        self.events(id, from, |event| {
            let order = match &event.kind {
                Kind::Syscall(call) => call.order,
                _ => None,
            };
            found.extend(order.filter(|order| *order < below));
            order.is_none_or(|order| order < below)
        })
    }

    /// Hands out the events of a tape behind a mark, as long as `each` wants more.
    ///
    /// # Errors
    /// As [`RecentTapes::read`]; or the bytes are no events.
    pub fn events(
        &self,
        id: TapeId,
        from: TapeMark,
        mut each: impl FnMut(&Event<'_>) -> bool,
    ) -> io::Result<()> {
        let mut decoder = Decoder::at(from.ticks);
        let (mut rest, mut more) = (Vec::new(), true);
        self.read(id, from.offset, |bytes| {
            if !more {
                return Ok(());
            }
            rest.extend_from_slice(bytes);
            let mut at = 0;
            while more {
                match decoder.decode(&rest[at..]) {
                    Ok((event, length)) => {
                        at += length;
                        more = each(&event);
                    }
                    Err(DecodeError::Incomplete) => break,
                    Err(error) => return Err(io::Error::other(error)),
                }
            }
            rest.drain(..at);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_stays_and_the_rest_goes() {
        let mut tapes = RecentTapes::new().expect("there is memory");
        let (id, other) = (TapeId::new(0, 0), TapeId::new(1, 0));
        let all: Vec<u8> = (0..5 * BLOCK + 77).map(|n| (n / 3) as u8).collect();
        for part in all.chunks(1000) {
            tapes.append(id, part).expect("there is memory");
        }
        tapes.append(other, b"other").expect("there is memory");
        let read = |tapes: &RecentTapes, from: usize| {
            let mut bytes = Vec::new();
            let done = tapes.read(id, from as u64, |part| {
                bytes.extend_from_slice(part);
                Ok::<(), io::Error>(())
            });
            done.map(|()| bytes)
        };
        for from in [0, 1, BLOCK, 2 * BLOCK + 5, all.len() - 1, all.len()] {
            assert_eq!(read(&tapes, from).expect("it is there"), all[from..]);
        }
        let before = tapes.bytes();
        let place = 3 * BLOCK + 9;
        tapes.forget(&BTreeMap::from([(id, place as u64)]), |of| of == id);
        assert_eq!(read(&tapes, place).expect("it is needed"), all[place..]);
        assert!(read(&tapes, place - BLOCK).is_err() && tapes.bytes() < before);
        assert_eq!(tapes.ids().collect::<Vec<_>>(), [id]);
        // Of what is in no block each byte goes by itself.
        let place = all.len() - 7;
        tapes.forget(&BTreeMap::from([(id, place as u64)]), |of| of == id);
        assert_eq!(read(&tapes, place).expect("it is needed"), all[place..]);
        assert!(read(&tapes, place - 1).is_err());
        assert_eq!(tapes.bytes(), 7);
        tapes.append(id, b"more").expect("there is memory");
        let more = [&all[place..], b"more"].concat();
        assert_eq!(read(&tapes, place).expect("it is needed"), more);
        // Of what has gone elsewhere only the place is known.
        let end = (all.len() + 4) as u64;
        tapes.pass(id, 6);
        assert_eq!(tapes.bytes(), 0);
        tapes.append(id, b"behind").expect("there is memory");
        assert_eq!(
            read(&tapes, end as usize + 6).expect("it is there"),
            b"behind"
        );
        let begins_at = |offset| {
            let mark = TapeMark {
                offset,
                ..TapeMark::default()
            };
            tapes.begin_by(&BTreeMap::from([(id, mark)]))
        };
        assert!(begins_at(end + 6) && !begins_at(end + 5));
    }
}
