//! Messages in the stream: a header with the length, an empty line, JSON
//! (<https://microsoft.github.io/debug-adapter-protocol/overview#base-protocol>).
//!
//! Must never go on after an invalid header: the start of the next message is unknown then, and a
//! client of another protocol (a page in a browser that posts to a port) must not smuggle in a
//! message by its body.

use std::io::{self, BufRead, Read, Write};

use serde_json::Value;
use thiserror::Error;

/// Longest header.
const HEADER_MAX: u64 = 4 << 10;
/// Longest message: a request is a few hundred bytes, a long list of breakpoints some thousand.
const MESSAGE_MAX: usize = 16 << 20;

/// The errors of a stream.
#[derive(Debug, Error)]
pub enum Error {
    /// It cannot be read.
    #[error("the client cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The bytes do not follow the protocol.
    #[error("the client does not speak the Debug Adapter Protocol: {0}")]
    Broken(String),
}

/// The bytes of the next message; `None` at the end of the stream.
///
/// # Errors
/// A read error, or an invalid header.
pub fn read(input: &mut dyn BufRead) -> Result<Option<Vec<u8>>, Error> {
    let mut length = None;
    let mut header = input.take(HEADER_MAX);
    let mut begun = false;
    loop {
        let mut line = Vec::new();
        header.read_until(b'\n', &mut line)?;
        if line.is_empty() && !begun && header.limit() > 0 {
            return Ok(None);
        }
        begun = true;
        let Some(line) = line.strip_suffix(b"\n") else {
            return Err(broken("a header without end", &line));
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        let (name, value) = field(line).ok_or_else(|| broken("no header", line))?;
        if name.eq_ignore_ascii_case("content-length") {
            let known = value.parse().ok().filter(|n| *n <= MESSAGE_MAX);
            length = Some(known.ok_or_else(|| broken("no length", line))?);
        }
    }
    let Some(length) = length else {
        return Err(Error::Broken("a header without Content-Length".to_owned()));
    };
    let mut message = vec![0; length];
    match input.read_exact(&mut message) {
        Ok(()) => Ok(Some(message)),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            Err(Error::Broken("the last message is cut off".to_owned()))
        }
        Err(e) => Err(e.into()),
    }
}

/// A name of letters and dashes, and its value.
fn field(line: &[u8]) -> Option<(&str, &str)> {
    let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
    let is_name = |b: u8| b.is_ascii_alphabetic() || b == b'-';
    (!name.is_empty() && name.bytes().all(is_name)).then_some((name, value.trim()))
}

fn broken(what: &str, line: &[u8]) -> Error {
    let shown = &line[..line.len().min(40)];
    Error::Broken(format!("{what}: {:?}", String::from_utf8_lossy(shown)))
}

/// Writes a message.
///
/// # Errors
/// A write error.
pub fn write(output: &mut dyn Write, message: &Value) -> io::Result<()> {
    let text = message.to_string();
    let whole = format!("Content-Length: {}\r\n\r\n{text}", text.len());
    output.write_all(whole.as_bytes())?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<Error>) {
        let mut input = bytes;
        let mut found = Vec::new();
        loop {
            match read(&mut input) {
                Ok(Some(message)) => found.push(message),
                Ok(None) => return (found, None),
                Err(e) => return (found, Some(e)),
            }
        }
    }

    #[test]
    fn messages_are_read() {
        let (found, error) = all(b"Content-Length: 2\r\n\r\n{}content-length:3\nX-Y: z\n\nabc");
        assert_eq!(found, [b"{}".to_vec(), b"abc".to_vec()]);
        assert!(error.is_none());
        assert!(all(b"").1.is_none());
    }

    #[test]
    fn what_makes_no_sense_ends_the_stream() {
        for wrong in [
            &b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"[..],
            b"GET http://x/ HTTP/1.1\r\n\r\n",
            b"Content-Length: -1\r\n\r\n",
            b"Content-Length: 99999999999\r\n\r\n",
            b"Content-Length: 17000000\r\n\r\n",
            b"\r\n{}",
            b"Content-Length: 5\r\n\r\n{}",
            b"Content-Length: 5",
            b"\xff\xfe: 3\r\n\r\n",
            &[b'a'; 5000],
            &[b'\n'; 1],
        ] {
            let (found, error) = all(wrong);
            assert_eq!(found, Vec::<Vec<u8>>::new());
            assert!(matches!(error, Some(Error::Broken(_))), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            all(&bytes);
        }

        #[test]
        fn what_is_written_is_read(texts in prop::collection::vec(".{0,40}", 0..5)) {
            let mut stream = Vec::new();
            for text in &texts {
                write(&mut stream, &Value::String(text.clone())).unwrap();
            }
            let (found, error) = all(&stream);
            prop_assert!(error.is_none());
            let read: Vec<String> =
                found.iter().map(|m| serde_json::from_slice(m).unwrap()).collect();
            prop_assert_eq!(read, texts);
        }
    }
}
