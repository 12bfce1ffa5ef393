//! The connection to a client: buffered bytes over a stream.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use gdbstub::conn::{Connection, ConnectionExt};

/// Either kind of stream.
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a socket file, or a pair of sockets.
    Unix(UnixStream),
}

impl Stream {
    fn fd(&self) -> RawFd {
        match self {
            Self::Tcp(s) => s.as_raw_fd(),
            Self::Unix(s) => s.as_raw_fd(),
        }
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => Read::read(s, buf),
            Self::Unix(s) => Read::read(s, buf),
        }
    }

    fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(s) => Write::write_all(s, buf),
            Self::Unix(s) => Write::write_all(s, buf),
        }
    }
}

/// A connection.
pub struct Link {
    stream: Stream,
    input: Vec<u8>,
    at: usize,
    output: Vec<u8>,
}

impl Link {
    pub fn new(stream: Stream) -> Self {
        if let Stream::Tcp(s) = &stream {
            // Packets are small and each waits for its answer. It works without, but slowly.
            let _ = s.set_nodelay(true);
        }
        Self {
            stream,
            input: Vec::new(),
            at: 0,
            output: Vec::new(),
        }
    }

    /// Whether a byte (or the end) can be read without waiting.
    pub fn has_input(&self) -> bool {
        if self.at < self.input.len() {
            return true;
        }
        let mut poll = libc::pollfd {
            fd: self.stream.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, which outlives the call.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
    }

    /// Shows text on the client's console, while the guest runs for it (an `O` packet).
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        for part in text.as_bytes().chunks(1024) {
            let mut packet = String::from("O");
            for b in part {
                packet.push_str(&format!("{b:02x}"));
            }
            let sum = packet.bytes().fold(0u8, u8::wrapping_add);
            self.output
                .extend_from_slice(format!("${packet}#{sum:02x}").as_bytes());
        }
        Connection::flush(self)
    }
}

impl Connection for Link {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.output.push(byte);
        Ok(())
    }

    fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        self.output.extend_from_slice(buf);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let output = std::mem::take(&mut self.output);
        self.stream.write_all(&output)
    }
}

impl ConnectionExt for Link {
    fn read(&mut self) -> io::Result<u8> {
        if self.at == self.input.len() {
            self.flush()?;
            self.input.resize(4096, 0);
            let n = self.stream.read(&mut self.input)?;
            self.input.truncate(n);
            self.at = 0;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let byte = self.input[self.at];
        self.at += 1;
        Ok(byte)
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.input.get(self.at).copied())
    }
}
