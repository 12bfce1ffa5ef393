//! Replay: the store of the recording, mapped. Must never return bytes that have not been checked.

use std::sync::OnceLock;

use relive_trace::Input;
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::failure::{Failure, Result};

struct MappedStore {
    base: *const u8,
    input: Input,
}

// SAFETY: the mapping is only read.
unsafe impl Send for MappedStore {}
// SAFETY: as above.
unsafe impl Sync for MappedStore {}

/// The mapped store. Process-wide: events refer to its bytes for as long as the process lives.
static MAPPED: OnceLock<MappedStore> = OnceLock::new();

/// Maps the store of the recording that is replayed, if it has one. Once in a process.
///
/// # Errors
/// It cannot be mapped.
pub fn attach(input: &Input) -> Result<()> {
    let (Some(file), length @ 1..) = (input.file(), input.length() - input.base()) else {
        return Ok(());
    };
    let (anywhere, length) = (std::ptr::null_mut(), length as usize);
    // SAFETY: a fresh map of a file of the trace, for reading.
    let base = unsafe { mmap(anywhere, length, ProtFlags::READ, MapFlags::SHARED, file, 0) }
        .map_err(|e| Failure::setup(format!("cannot map the recording's input: {e}")))?;
    let mapped = MappedStore {
        base: base.cast(),
        input: input.clone(),
    };
    match MAPPED.set(mapped) {
        Ok(()) => Ok(()),
        Err(_) => Err(Failure::internal("a replay starts once")),
    }
}

/// Bytes of the store.
///
/// # Errors
/// The trace is damaged: the store has no such range, or other bytes there.
pub fn recorded(offset: u64, length: u64) -> Result<&'static [u8]> {
    let Some(mapped) = MAPPED.get() else {
        return Err(Failure::setup(
            "the trace is damaged: an event refers to input, and there is none",
        ));
    };
    let at = |start: u64, end: u64| {
        let first = mapped.input.base();
        // SAFETY: inside the store, which is mapped as a whole: `unchecked` yields and
        // accepts no other ranges. No process changes a recording.
        unsafe {
            let from = mapped.base.add((start - first) as usize);
            std::slice::from_raw_parts(from, (end - start) as usize)
        }
    };
    let input = &mapped.input;
    let unchecked = input.unchecked(offset, length).map_err(Failure::setup)?;
    for (piece, range) in unchecked {
        input
            .check(piece, at(range.start, range.end))
            .map_err(Failure::setup)?;
    }
    Ok(at(offset, offset + length))
}
