//! Where a recording's tapes go: into its trace, or into memory, if only the last part is kept.

use relive_trace::{Piece, TapeId, TraceWriter};

use super::flight::Flight;
use crate::failure::{Failure, Result};

/// See the module.
pub struct TapeStore {
    /// The trace; of a flight its processes put their copies of files there.
    pub writer: TraceWriter,
    /// The last part of the tapes, where no more is kept.
    pub flight: Option<Flight>,
}

impl TapeStore {
    /// Adds bytes to a tape.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn append(&mut self, tape: TapeId, bytes: &[u8]) -> Result<()> {
        match &mut self.flight {
            Some(flight) => flight.append(tape, bytes),
            None => self.writer.append(tape, bytes).map_err(Failure::setup),
        }
    }

    /// Notes pieces of the store of input, before events that refer to them.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn add_pieces(&mut self, pieces: &[Piece]) -> Result<()> {
        match &mut self.flight {
            Some(flight) => {
                flight.add_pieces(pieces);
                Ok(())
            }
            None => self.writer.add_pieces(pieces).map_err(Failure::setup),
        }
    }

    /// Writes what has been collected for a tape.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush(&mut self, tape: TapeId) -> Result<()> {
        match &mut self.flight {
            Some(flight) => {
                flight.flush(Some(tape));
                Ok(())
            }
            None => self.writer.flush(tape).map_err(Failure::setup),
        }
    }

    /// Writes what has been collected for all tapes.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush_all(&mut self) -> Result<()> {
        match &mut self.flight {
            Some(flight) => {
                flight.flush(None);
                Ok(())
            }
            None => self.writer.flush_all().map_err(Failure::setup),
        }
    }
}
