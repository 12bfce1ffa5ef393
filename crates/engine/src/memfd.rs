//! Memory files of the host's own: a few bytes that another process, or the next program, is to read.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::FromRawFd;

use crate::failure::{Failure, die};

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

/// Reads an inherited descriptor to its end and closes it.
pub fn drain(fd: i32) -> Vec<u8> {
    // SAFETY: the descriptor was made for this process to read.
    let mut file = unsafe { File::from_raw_fd(fd) };
    let mut bytes = Vec::new();
    if let Err(e) = file.read_to_end(&mut bytes) {
        die(&Failure::internal(format!(
            "cannot read the start data: {e}"
        )));
    }
    bytes
}
