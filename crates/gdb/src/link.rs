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
    /// The packet that is being read, up to its `#`; `None` between packets.
    packet: Option<Vec<u8>>,
    /// Conditions of breakpoints that have come since the last look, by address.
    pub conditions: Vec<(u64, Vec<Vec<u8>>)>,
}

/// Longest packet whose conditions are looked at.
const PACKET_MAX: usize = 64 << 10;
/// What is added to the list of features: gdbstub reads conditions and drops them.
const CONDITIONAL: &[u8] = b";ConditionalBreakpoints+";
/// How the list of features begins.
const FEATURES: &[u8] = b"$PacketSize=";

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
            packet: None,
            conditions: Vec::new(),
        }
    }

    /// Follows the packets that come in.
    fn follow(&mut self, byte: u8) {
        match (byte, &mut self.packet) {
            (b'$', _) => self.packet = Some(Vec::new()),
            (b'#', packet) => {
                if let Some((at, conditions)) = packet.take().as_deref().and_then(conditions) {
                    self.conditions.retain(|(old, _)| *old != at);
                    self.conditions.push((at, conditions));
                }
            }
            (_, Some(packet)) if packet.len() < PACKET_MAX => packet.push(byte),
            (_, packet) => *packet = None,
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
        let mut output = std::mem::take(&mut self.output);
        announce(&mut output);
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
        self.follow(byte);
        Ok(byte)
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.input.get(self.at).copied())
    }
}

/// Adds the feature of conditions where the list of features goes out.
fn announce(output: &mut Vec<u8>) {
    let Some(start) = output.windows(FEATURES.len()).position(|w| w == FEATURES) else {
        return;
    };
    let Some(len) = output[start..].iter().position(|b| *b == b'#') else {
        return;
    };
    output.truncate(start + len);
    output.extend_from_slice(CONDITIONAL);
    let sum = output[start + 1..]
        .iter()
        .fold(0u8, |s, b| s.wrapping_add(*b));
    output.extend_from_slice(format!("#{sum:02x}").as_bytes());
}

/// Address and conditions of a packet that sets a breakpoint:
/// `Z0,addr,kind[;Xlen,code]…[;cmds:…]`.
fn conditions(packet: &[u8]) -> Option<(u64, Vec<Vec<u8>>)> {
    let text = std::str::from_utf8(packet).ok()?;
    let rest = text.strip_prefix("Z0,").or(text.strip_prefix("Z1,"))?;
    let mut parts = rest.split(';');
    let at = u64::from_str_radix(parts.next()?.split(',').next()?, 16).ok()?;
    let mut found = Vec::new();
    for code in parts
        .take_while(|p| p.starts_with('X'))
        .flat_map(|p| p[1..].split('X'))
    {
        let hex = code.split(',').nth(1)?;
        let bytes = hex.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        found.push(bytes.collect::<Option<Vec<u8>>>()?);
    }
    Some((at, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        let read = |text: &str| conditions(text.as_bytes());
        assert_eq!(read("Z0,401000,1"), Some((0x401000, vec![])));
        let one = vec![0x22, 1, 0x27];
        assert_eq!(read("Z0,10,1;X3,220127"), Some((0x10, vec![one.clone()])));
        let both = Some((0x10, vec![one.clone(), one]));
        assert_eq!(read("Z1,10,1;X3,220127X3,220127;cmds:0,X1,27"), both);
        for wrong in [
            "Z2,10,1",
            "Z0,zz,1",
            "Z0,10,1;X3",
            "Z0,10,1;X1,2z",
            "z0,10,1",
            "",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_feature_is_announced_with_a_right_sum() {
        let mut output = b"+$PacketSize=10000;vContSupported+#00".to_vec();
        announce(&mut output);
        let text = String::from_utf8(output).unwrap();
        let body = text.split(['$', '#']).nth(1).unwrap();
        assert!(body.ends_with(";ConditionalBreakpoints+"));
        let sum = body.bytes().fold(0u8, u8::wrapping_add);
        assert!(text.ends_with(&format!("#{sum:02x}")));
        let mut other = b"$OK#9a".to_vec();
        announce(&mut other);
        assert_eq!(other, b"$OK#9a");
    }
}
