//! A client that keeps to the remote protocol, and reports when the server does not.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Limit on the time of an answer; only a hang takes longer.
const LIMIT: Duration = Duration::from_secs(60);

/// A packet with its checksum. The body is escaped already.
#[must_use]
pub fn packet(body: &[u8]) -> Vec<u8> {
    let sum = body.iter().fold(0u8, |s, b| s.wrapping_add(*b));
    let mut whole = vec![b'$'];
    whole.extend_from_slice(body);
    whole.extend_from_slice(format!("#{sum:02x}").as_bytes());
    whole
}

/// The transport of a connection.
trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// A connection without acknowledgements.
pub struct Client {
    stream: Box<dyn Stream>,
    input: Vec<u8>,
}

impl Client {
    /// Connects and agrees on the protocol.
    ///
    /// # Errors
    /// There is no server, or its answer is not of the protocol.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        Self::over(stream)
    }

    /// The same over TCP.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_tcp(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        Self::over(stream)
    }

    fn over(stream: impl Stream + 'static) -> io::Result<Self> {
        let mut client = Self {
            stream: Box::new(stream),
            input: Vec::new(),
        };
        let features = client.ask("qSupported:multiprocess+;swbreak+;hwbreak+")?;
        if !features.starts_with("PacketSize=") {
            return Err(io::Error::other(format!("no features: {features}")));
        }
        match client.ask("QStartNoAckMode")?.as_str() {
            "OK" => Ok(client),
            other => Err(io::Error::other(format!("QStartNoAckMode: {other}"))),
        }
    }

    /// Returns the next bytes, so many.
    ///
    /// # Errors
    /// The server is gone.
    pub fn receive(&mut self, len: usize) -> io::Result<Vec<u8>> {
        while self.input.len() < len {
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => self.input.extend_from_slice(&bytes[..n]),
            }
        }
        Ok(self.input.drain(..len).collect())
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The server is gone.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a packet, and returns the answer.
    ///
    /// # Errors
    /// The server is gone, or its answer is not a packet.
    pub fn ask(&mut self, body: &str) -> io::Result<String> {
        self.send(&packet(body.as_bytes()))?;
        self.answer()
    }

    /// The next packet that is not output of the program.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn answer(&mut self) -> io::Result<String> {
        loop {
            let text = self.packet()?;
            let output = text.strip_prefix('O');
            if output.is_none_or(|hex| hex == "K" || hex.is_empty()) {
                return Ok(text);
            }
        }
    }

    /// The next packet, with the right checksum.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn packet(&mut self) -> io::Result<String> {
        loop {
            if let Some(start) = self.input.iter().position(|b| *b == b'$')
                && let Some(len) = self.input[start..].iter().position(|b| *b == b'#')
                && self.input.len() >= start + len + 3
            {
                let whole: Vec<u8> = self.input.drain(..start + len + 3).skip(start).collect();
                let body = &whole[1..len];
                if packet(body) != whole {
                    let text = String::from_utf8_lossy(&whole).into_owned();
                    return Err(io::Error::other(format!("a wrong sum: {text}")));
                }
                return Ok(String::from_utf8_lossy(&expanded(body)).into_owned());
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => self.input.extend_from_slice(&bytes[..n]),
            }
        }
    }

    /// Sends a `monitor` command, and returns its output.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn monitor(&mut self, command: &str) -> io::Result<String> {
        self.send(&packet(
            format!("qRcmd,{}", hex(command.as_bytes())).as_bytes(),
        ))?;
        let mut text = String::new();
        loop {
            let said = self.packet()?;
            match said.strip_prefix('O') {
                Some(hex) if hex != "K" => text.push_str(&unhex(hex)),
                _ if said == "OK" => return Ok(text),
                _ => return Err(io::Error::other(format!("monitor {command}: {said}"))),
            }
        }
    }
}

/// Expands run-length encoding: the character behind `*` is 29 plus the number of repetitions of
/// the byte before it.
fn expanded(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = body.iter();
    while let Some(byte) = bytes.next() {
        match (byte, out.last().copied()) {
            (b'*', Some(last)) => {
                let count = bytes
                    .next()
                    .map_or(0, |n| usize::from(n.saturating_sub(29)));
                out.extend(std::iter::repeat_n(last, count));
            }
            _ => out.push(*byte),
        }
    }
    out
}

/// Bytes in the protocol's notation.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> String {
    let bytes: Vec<u8> = text
        .as_bytes()
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
