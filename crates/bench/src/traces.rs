//! Facts about a recording on disk.

use std::path::Path;

use anyhow::Result;
use relive_trace::{Kind, Syscall, Trace};
use serde::Serialize;

/// The size of a recording.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TraceFacts {
    /// Bytes of all files in the folder.
    pub bytes: u64,
    /// Bytes of the data that the program read from files.
    pub input_bytes: u64,
    /// Copies of the files that it mapped.
    pub file_bytes: u64,
    /// Bytes of the other files.
    pub tape_bytes: u64,
    /// Bytes that system calls wrote into the program's memory, uncompressed, each time counted.
    pub given_bytes: u64,
    /// Events on all tapes.
    pub events: u64,
    /// Seconds that the recording took.
    pub seconds: f64,
}

impl TraceFacts {
    /// The facts about a trace that took so long to record.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn of(trace: &Path, seconds: f64) -> Result<Self> {
        let (events, given_bytes) = contents(trace)?;
        let bytes = size(trace)?;
        let input = trace.join("input");
        let input_bytes = if input.exists() {
            input.metadata()?.len()
        } else {
            0
        };
        let file_bytes = size(&trace.join("files"))?;
        Ok(Self {
            bytes,
            input_bytes,
            file_bytes,
            tape_bytes: bytes - input_bytes - file_bytes,
            given_bytes,
            events,
            seconds,
        })
    }

    /// The facts of two recordings together.
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            input_bytes: self.input_bytes + other.input_bytes,
            file_bytes: self.file_bytes + other.file_bytes,
            tape_bytes: self.tape_bytes + other.tape_bytes,
            given_bytes: self.given_bytes + other.given_bytes,
            events: self.events + other.events,
            seconds: self.seconds + other.seconds,
        }
    }
}

/// The numbers of events of a trace and of bytes that its system calls wrote into the program's
/// memory.
fn contents(trace: &Path) -> Result<(u64, u64)> {
    let trace = Trace::open(trace)?;
    let (mut events, mut given) = (0, 0);
    for tape in trace.tapes() {
        let mut tape = trace.tape(tape.id)?;
        while let Some(event) = tape.next()? {
            events += 1;
            if let Kind::Syscall(call) = event.kind {
                given += written(&call);
            }
        }
    }
    Ok((events, given))
}

/// The number of bytes that a system call wrote into the program's memory.
fn written(call: &Syscall<'_>) -> u64 {
    let by_value = call.writes.iter().map(|(_, bytes)| bytes.len() as u64);
    by_value
        .chain(call.refs.iter().map(|part| part.length))
        .sum()
}

/// Bytes of all files below a folder; 0 if there is none.
fn size(folder: &Path) -> Result<u64> {
    let mut all = 0;
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let about = entry.metadata()?;
            all += if about.is_dir() {
                size(&entry.path())?
            } else {
                about.len()
            };
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use relive_trace::{Args, InputRef, Refs, Writes};

    use super::*;

    #[test]
    fn what_a_call_writes_counts_by_value_and_by_reference() {
        let by_value: [(u64, &[u8]); 2] = [(0x1000, b"four"), (0x2000, b"three")];
        let by_reference = [InputRef {
            address: 0x3000,
            offset: 7,
            length: 4096,
        }];
        let call = Syscall {
            nr: 0,
            args: Args::new(&[]),
            result: 0,
            switched: false,
            order: None,
            stream: 0,
            writes: Writes::new(&by_value),
            refs: Refs::new(&by_reference),
            extra: b"not written",
        };
        assert_eq!(written(&call), 4 + 5 + 4096);
    }
}
