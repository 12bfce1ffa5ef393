//! The connection to a client: buffered bytes over a stream, packets handed on as a whole.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use gdbstub::conn::{Connection, ConnectionExt};

use crate::interrupt::{INTERRUPT, Interrupt};
use crate::packets::{self, Aside, Incoming};

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

/// Most bytes of packets with conditions that are kept.
const MOST_CONDITIONS: usize = 4 << 20;

/// A connection.
pub struct Link {
    stream: Stream,
    input: Vec<u8>,
    at: usize,
    /// Bytes of packets that have come as a whole, for the library.
    ready: VecDeque<u8>,
    output: Vec<u8>,
    /// The packet that is being read.
    packet: Incoming,
    /// What is said to packets that the library knows nothing of.
    aside: Aside,
    /// Conditions of breakpoints that have come since the last look, by address.
    conditions: BTreeMap<u64, Vec<Vec<u8>>>,
    /// Bytes of them.
    learnt: usize,
    /// For those who do not return to this for a while.
    pub interrupt: Rc<Interrupt>,
    /// What the next stop is to tell, where gdbstub has no words for it.
    pub told: Option<String>,
}

impl Link {
    /// Over a stream, about the process of this id.
    pub fn new(stream: Stream, pid: u32) -> Self {
        if let Stream::Tcp(s) = &stream {
            // Packets are small and each waits for its answer. It works without, but slowly.
            let _ = s.set_nodelay(true);
        }
        let interrupt = Rc::new(Interrupt::of(stream.fd()));
        Self {
            stream,
            input: Vec::new(),
            at: 0,
            ready: VecDeque::new(),
            output: Vec::new(),
            packet: Incoming::default(),
            aside: Aside::of(pid),
            conditions: BTreeMap::new(),
            learnt: 0,
            interrupt,
            told: None,
        }
    }

    /// Takes in a byte; packets are handed on when they are whole.
    fn take(&mut self, byte: u8) {
        let Some(whole) = self.packet.take(byte) else {
            return;
        };
        if let Some(body) = packets::body(&whole) {
            if let Some((at, conditions)) = packets::conditions(body) {
                // Where they are too many, breakpoints have none: the client looks itself then.
                self.learnt += body.len();
                let many = self.learnt > MOST_CONDITIONS;
                let conditions = if many { Vec::new() } else { conditions };
                self.conditions.insert(at, conditions);
            }
            if let Some(answer) = self.aside.answer(body) {
                self.output.extend(answer);
                return;
            }
        }
        self.ready.extend(whole);
    }

    /// Takes the conditions that have come since the last look.
    pub fn take_conditions(&mut self) -> BTreeMap<u64, Vec<Vec<u8>>> {
        self.learnt = 0;
        std::mem::take(&mut self.conditions)
    }

    /// Whether a byte (or the end) can be read without waiting.
    pub fn has_input(&self) -> bool {
        if self.at < self.input.len() || !self.ready.is_empty() {
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
    pub fn say(&mut self, text: &[u8]) -> io::Result<()> {
        for part in text.chunks(1024) {
            let hex: String = part.iter().map(|b| format!("{b:02x}")).collect();
            self.output.extend(packets::packet(&format!("O{hex}")));
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
        let mut output = std::mem::take(&mut self.output);
        packets::announce(&mut output);
        packets::tell(&mut output, &mut self.told);
        self.stream.write_all(&output)
    }
}

impl ConnectionExt for Link {
    fn read(&mut self) -> io::Result<u8> {
        loop {
            if let Some(byte) = self.ready.pop_front() {
                return Ok(byte);
            }
            if self.at == self.input.len() {
                self.flush()?;
                self.input.resize(4096, 0);
                self.at = 0;
                let read = self.stream.read(&mut self.input);
                self.input.truncate(*read.as_ref().unwrap_or(&0));
                if read? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let byte = self.input[self.at];
            self.at += 1;
            // An interruption that somebody has already stopped for is over.
            if byte == INTERRUPT && self.interrupt.taken.take() {
                continue;
            }
            self.take(byte);
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        let next = self.ready.front().or_else(|| self.input.get(self.at));
        Ok(next.copied())
    }
}
