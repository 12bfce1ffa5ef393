//! Memory files of the host's own: a few bytes that another process, or the next program, is to read.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::FromRawFd;

/// A memfd with `bytes`, at its start; closed on exec or not.
///
/// # Errors
/// The kernel's refusal.
pub fn with(bytes: &[u8]) -> std::io::Result<File> {
    // SAFETY: a fresh descriptor.
    let fd = unsafe { libc::memfd_create(c"boot".as_ptr(), 0) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: nobody else has it.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
