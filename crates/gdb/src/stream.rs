//! Streams to a client, and readiness of their input. Nothing here may look at the bytes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Either kind of stream.
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a socket file, or a pair of sockets.
    Unix(UnixStream),
}

impl Stream {
    /// As [`Read::read`].
    pub fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => (&mut &*s).read(buf),
            Self::Unix(s) => (&mut &*s).read(buf),
        }
    }

    /// As [`Write::write_all`].
    pub fn write_all(&self, buf: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(s) => (&mut &*s).write_all(buf),
            Self::Unix(s) => (&mut &*s).write_all(buf),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(s) => s.as_fd(),
            Self::Unix(s) => s.as_fd(),
        }
    }
}

/// Whether input or the end of the stream arrives within this many milliseconds.
pub fn has_input(from: &impl AsFd, ms: u16) -> bool {
    come(from, PollFlags::IN, ms).is_some()
}

/// The events that arrive within this many milliseconds; `None`: none.
pub fn come(from: &impl AsFd, what: PollFlags, ms: u16) -> Option<PollFlags> {
    let most = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(ms % 1000) * 1_000_000,
    };
    let mut looked_at = [PollFd::new(from, what)];
    let ready = poll(&mut looked_at, Some(&most)).is_ok_and(|ready| ready > 0);
    ready.then(|| looked_at[0].revents())
}
