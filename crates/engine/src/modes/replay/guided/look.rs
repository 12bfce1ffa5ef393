//! Guest memory as a debugger sees it, and changing it in a copy that is thrown away.

use relive_host::{GuestAddr, copy};

use crate::failure::Result;
use crate::guide::protocol::{MapLine, Response};
use crate::machine::Machine;

/// Most bytes of one answer.
const READ_MAX: u64 = 16 << 20;

/// An answer to a change.
pub fn done(worked: bool) -> Response {
    if worked {
        Response::Done
    } else {
        Response::Absent
    }
}

/// Guest memory, up to the first byte that is not there.
pub fn read(machine: &Machine, addr: u64, len: u64) -> (Response, Vec<u8>) {
    let mut bytes = vec![0; len.min(READ_MAX) as usize];
    if let Err(copy::BadAddress(at)) = copy::read(GuestAddr(addr), &mut bytes) {
        bytes.truncate(at.0.saturating_sub(addr) as usize);
    }
    // Relive's own memory is none of the guest's.
    let memory = machine.memory();
    let mut end = addr;
    while let Some(region) = memory.space.at(end) {
        end = region.end;
    }
    bytes.truncate(end.saturating_sub(addr).min(len) as usize);
    if bytes.is_empty() && len > 0 {
        return (Response::Absent, bytes);
    }
    (Response::Done, bytes)
}

/// Reads all of these bytes, if all of them are the guest's.
pub fn read_whole(machine: &Machine, addr: u64, bytes: &mut [u8]) -> bool {
    let end = addr.saturating_add(bytes.len() as u64);
    machine.memory().space.is_mapped(addr, end) && copy::read(GuestAddr(addr), bytes).is_ok()
}

/// The content of mapped memory, whether the guest may read it or not: as much of a range as one answer
/// holds.
///
/// # Errors
/// It cannot be opened to the host.
pub fn content(machine: &Machine, start: u64, end: u64) -> Result<Vec<u8>> {
    let end = end.min(start.saturating_add(READ_MAX)).max(start);
    machine.memory().content(start, end)
}

/// Writes guest memory, read-only memory too. Returns whether all of it is mapped.
///
/// # Errors
/// A page cannot be opened.
pub fn write(machine: &Machine, addr: u64, bytes: &[u8]) -> Result<bool> {
    let mut memory = machine.memory();
    let end = addr.saturating_add(bytes.len() as u64);
    if !memory.space.is_mapped(addr, end) {
        return Ok(false);
    }
    Ok(memory.poke(addr, bytes)?.is_ok())
}

/// The memory map.
pub fn maps(machine: &Machine) -> Vec<MapLine> {
    let memory = machine.memory();
    let regions = memory.space.iter();
    regions
        .map(|r| MapLine {
            start: r.start,
            end: r.end,
            prot: r.prot,
            offset: r.offset,
            name: r.name.to_string(),
        })
        .collect()
}
