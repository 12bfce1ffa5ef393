//! The exact tapes of epochs, put together to those of the recording. Must never change an event.

use std::collections::BTreeMap;
use std::path::Path;

use relive_trace::{Encoder, Event, Kind, Manifest, Summary, TapeId, Trace, TraceWriter};

use crate::failure::{Failure, Result};

/// Writes the exact tapes of a trace into a folder: those of the epochs in these folders, one behind the other. `firsts`: the thread
/// whose turn it is where each begins, if that has to be said.
///
/// # Errors
/// A tape is damaged, or the folder cannot be written.
pub fn join(trace: &Path, epochs: &[&Path], firsts: &[Option<u32>], folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(Failure::setup)?;
    }
    let manifest = Manifest::read(trace).map_err(Failure::setup)?;
    let writer = TraceWriter::create(folder, &manifest.clone().begun()).map_err(Failure::setup)?;
    let mut joined = JoinedTapes {
        writer,
        encoders: BTreeMap::new(),
        events: 0,
    };
    for (epoch, first) in epochs.iter().zip(firsts) {
        let tapes = Trace::open_recorded(epoch).map_err(Failure::setup)?;
        if let Some(thread) = *first {
            joined.put(
                TapeId::schedule(0),
                &Event {
                    ticks: 0,
                    digest: 0,
                    kind: Kind::Turn { thread },
                },
            )?;
        }
        for tape in tapes.tapes() {
            let mut reader = tapes.tape(tape.id).map_err(Failure::setup)?;
            while let Some(event) = reader.next().map_err(Failure::setup)? {
                joined.put(tape.id, &event)?;
            }
        }
    }
    let summary = manifest.summary.map(|like| Summary {
        events: joined.events,
        ..like
    });
    joined
        .writer
        .finish(summary.as_ref())
        .map_err(Failure::setup)?;
    Ok(())
}

struct JoinedTapes {
    writer: TraceWriter,
    encoders: BTreeMap<TapeId, Encoder>,
    events: u64,
}

impl JoinedTapes {
    fn put(&mut self, tape: TapeId, event: &Event<'_>) -> Result<()> {
        let mut bytes = Vec::new();
        let encoder = self.encoders.entry(tape).or_default();
        encoder.encode(event, &mut bytes);
        self.events += 1;
        self.writer.append(tape, &bytes).map_err(Failure::setup)
    }
}
