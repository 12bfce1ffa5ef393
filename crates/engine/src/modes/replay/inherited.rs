//! Descriptors that a replay must not have: those inherited from its starter. A shell leaves its
//! own open in all processes that it starts, and the recorded program could write to them. Done
//! first of all, while the open descriptors are still known.

use std::os::fd::OwnedFd;

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::failure::{Failure, Result};
use crate::own_descriptors::above_streams;
use crate::{broker, descriptor};

/// Closes all but the standard streams and the two sockets of a replay. The standard input becomes
/// empty: typed input is not for a recording. Where one of the other two is closed, it stays
/// unusable, and no file of the replay's own can get its number.
///
/// # Errors
/// The kernel's refusal: then nothing may be replayed.
pub fn close() -> Result<()> {
    let kept = [broker::requested(), crate::guide::start_variable::socket()];
    let told = |e: std::io::Error| {
        Failure::setup(format!(
            "cannot close descriptors that the replay must not have: {e}"
        ))
    };
    close_but(&mut kept.into_iter().flatten().collect::<Vec<_>>()).map_err(told)?;
    // It has an end at once, and cannot be written to.
    let nothing = nothing().map_err(told)?;
    let is_closed = |stream| descriptor::flags(stream).is_none();
    let mut done = dup2_stdin(&nothing);
    if is_closed(1) {
        done = done.and_then(|()| dup2_stdout(&nothing));
    }
    if is_closed(2) {
        done = done.and_then(|()| dup2_stderr(&nothing));
    }
    done.map_err(|e| told(e.into()))
}

/// The reading end of a pipe without a writer, above the standard streams.
fn nothing() -> std::io::Result<OwnedFd> {
    let (end, _) = std::io::pipe()?;
    above_streams(&end)
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
        // Some containers forbid the call.
        _ => close_each(first, last),
    }
}

/// The same, one by one.
fn close_each(first: u32, last: u32) -> std::io::Result<()> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        open.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|n| n.parse::<i32>().ok()),
        );
    }
    // The folder's own is among them, and closed by now.
    open.retain(|&fd| u32::try_from(fd).is_ok_and(|fd| (first..=last).contains(&fd)));
    for fd in open {
        // SAFETY: as above.
        unsafe { rustix::io::close(fd) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn only_the_kept_ones_stay_open() {
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
                    && open(libc::dup2(2, other))
                    && close_each(3, (b - 1) as u32).is_ok()
                    && close_each((b + 1) as u32, u32::MAX).is_ok()
                    && [0, 1, 2, b].into_iter().all(open)
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
