//! Memory files of the host's own: a few bytes for another process, or for the next program's host.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Seek, Write};

use rustix::fs::{MemfdFlags, memfd_create};

/// A memfd with `bytes`, at its start; it stays open across exec.
///
/// # Errors
/// The kernel's refusal.
pub fn with(bytes: &[u8]) -> std::io::Result<File> {
    new(c"boot", MemfdFlags::empty(), bytes)
}

/// The same with this name and these flags.
///
/// # Errors
/// The kernel's refusal.
pub fn new(name: &CStr, flags: MemfdFlags, bytes: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(memfd_create(name, flags)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
