//! The connection to a client: buffered bytes over a stream, packets handed on as a whole.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use gdbstub::conn::Connection;

use crate::interrupt::{INTERRUPT, Interrupt};
use crate::packets::{self, Incoming};
use crate::stream::{Stream, has_input};

/// A connection.
pub struct Link {
    stream: Rc<Stream>,
    /// Received units: whole packets, and bytes that are none.
    ready: VecDeque<Vec<u8>>,
    output: Vec<u8>,
    /// The last packet sent, for a client that has not understood it.
    sent: Vec<u8>,
    /// The packet that is being read.
    packet: Incoming,
    /// For operations that do not return to this link for a while.
    pub interrupt: Rc<Interrupt>,
    /// Packets are not acknowledged any more.
    pub silent: bool,
    /// Nothing goes out.
    pub quiet: bool,
    /// The reason of the next stop, where gdbstub cannot express it.
    pub told: Option<String>,
}

impl Link {
    /// Over a stream.
    pub fn new(stream: Stream) -> Self {
        if let Stream::Tcp(s) = &stream {
            // Packets are small and each waits for its answer. It works without, but slowly.
            let _ = s.set_nodelay(true);
        }
        let stream = Rc::new(stream);
        let interrupt = Rc::new(Interrupt::of(&stream));
        Self {
            stream,
            ready: VecDeque::new(),
            output: Vec::new(),
            sent: Vec::new(),
            packet: Incoming::default(),
            interrupt,
            silent: false,
            quiet: false,
            told: None,
        }
    }

    /// Waits for the next unit: a whole packet, or bytes that are none.
    pub fn unit(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(unit) = self.ready.pop_front() {
                return Ok(unit);
            }
            self.flush()?;
            let mut input = [0; 4096];
            let n = self.stream.read(&mut input)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for &byte in &input[..n] {
                // An interrupt for which an operation has already stopped is over.
                if byte == INTERRUPT && self.interrupt.taken.take() {
                    continue;
                }
                self.ready.extend(self.packet.take(byte));
            }
        }
    }

    /// Answers a packet that does not reach the library.
    pub fn answer(&mut self, packet: &[u8]) -> io::Result<()> {
        if !self.silent {
            self.output.push(b'+');
        }
        self.output.extend_from_slice(packet);
        self.flush()
    }

    /// Whether a byte (or the end) can be read without waiting.
    pub fn has_input(&self) -> bool {
        if !self.ready.is_empty() {
            return true;
        }
        has_input(&*self.stream, 0)
    }

    /// Shows text on the client's console, while the guest runs for it (an `O` packet).
    pub fn say(&mut self, text: &[u8]) -> io::Result<()> {
        for part in text.chunks(1024) {
            let hex: String = part.iter().map(|b| format!("{b:02x}")).collect();
            self.output.extend(packets::packet(&format!("O{hex}")));
        }
        self.flush()
    }

    /// Resends the last packet to a client that has not understood it.
    pub fn again(&mut self) -> io::Result<()> {
        if self.silent {
            return Ok(());
        }
        self.stream.write_all(&self.sent)
    }

    /// Asks the client to resend a damaged packet.
    pub fn ask_again(&mut self) -> io::Result<()> {
        self.stream.write_all(b"-")
    }

    /// Drops a packet that is half written.
    pub fn forget(&mut self) {
        self.output.clear();
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut output = std::mem::take(&mut self.output);
        if self.quiet || output.is_empty() {
            return Ok(());
        }
        packets::announce(&mut output);
        packets::tell(&mut output, &mut self.told);
        self.stream.write_all(&output)?;
        self.sent = output;
        Ok(())
    }
}

/// The connection in the library's hands, which drops it when it gives up.
pub struct Wire(pub Rc<RefCell<Link>>);

impl Connection for Wire {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.0.borrow_mut().output.push(byte);
        Ok(())
    }

    fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().output.extend_from_slice(buf);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}
