//! Descriptors that a replay must not have: those of whoever has started it. A shell leaves its own
//! open in all that it starts, and the recorded program could write to them. Done first of all,
//! when what is open is still known.

use std::os::fd::AsRawFd;

use crate::broker;
use crate::failure::{Failure, Result};

/// Closes all but the standard streams and the two sockets of a replay, and leaves nothing to read
/// at the standard input: what is typed is not for a recording.
///
/// # Errors
/// The kernel's refusal: then nothing may be replayed.
pub fn close() -> Result<()> {
    let kept = [broker::requested(), super::guided::socket()];
    let told = |e: std::io::Error| {
        Failure::setup(format!("cannot close what the replay must not have: {e}"))
    };
    close_but(&mut kept.into_iter().flatten().collect::<Vec<_>>()).map_err(told)?;
    let nothing = crate::kernel::exec::memfd(&[]).map_err(told)?;
    // SAFETY: replaces the standard input by a descriptor of ours, which is closed then.
    match unsafe { libc::dup2(nothing.as_raw_fd(), 0) } {
        0 => Ok(()),
        _ => Err(told(std::io::Error::last_os_error())),
    }
}

/// Closes all descriptors above 2 but these.
fn close_but(kept: &mut [i32]) -> std::io::Result<()> {
    kept.sort_unstable();
    let mut from = 3_u32;
    for &mut fd in kept {
        let Some(fd) = u32::try_from(fd).ok().filter(|fd| *fd >= from) else {
            continue;
        };
        if fd > from {
            close_range(from, fd - 1)?;
        }
        from = fd + 1;
    }
    close_range(from, u32::MAX)
}

fn close_range(first: u32, last: u32) -> std::io::Result<()> {
    // SAFETY: nothing in this process, which has just begun, uses a descriptor of that range.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_kept_stays_open() {
        let (a, b) = std::os::unix::net::UnixStream::pair().expect("a socket");
        let (a, b) = (a.as_raw_fd(), b.as_raw_fd());
        // SAFETY: the child makes plain calls and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: descriptors of the child.
            let right = unsafe {
                let other = libc::dup(2);
                let open = |fd| libc::fcntl(fd, libc::F_GETFD) >= 0;
                open(other)
                    && close_but(&mut [b, -1, 2]).is_ok()
                    && [0, 1, 2, b].into_iter().all(open)
                    && !open(a)
                    && !open(other)
            };
            relive_host::sys::exit_group(i32::from(!right));
        }
        let mut status = -1;
        // SAFETY: waits for the child made above.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(status, 0);
    }
}
