//! Relive's own standard output and error. A reader that closes the pipe early is no failure.

use std::io::{self, BufWriter, IsTerminal, Write};

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;

use crate::escape;

/// The reasons to stop writing a page.
pub enum Stop {
    /// Writing to standard output failed.
    Output(io::Error),
    /// The source of the page failed.
    Failure(Failure),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<relive_trace::Error> for Stop {
    fn from(error: relive_trace::Error) -> Self {
        Self::Failure(Failure::setup(error))
    }
}

/// Takes whole characters, and passes on only text that a terminal cannot take for a command: much
/// of the output comes from a trace, which may be a stranger's.
struct Plain<W>(W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Most text is of this kind, and there may be a lot of it.
        if bytes.iter().all(|b| matches!(b, b'\n' | 0x20..0x7f)) {
            self.0.write_all(bytes)?;
        } else {
            let text = escape::lines(&String::from_utf8_lossy(bytes));
            self.0.write_all(text.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes to standard output; output before a failure stays.
///
/// # Errors
/// Of `write`, and of standard output other than a closed pipe.
pub fn print(write: impl FnOnce(&mut dyn Write) -> Result<(), Stop>) -> Result<EndStatus, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = write(&mut Plain(&mut out));
    match (written, out.flush()) {
        (Err(Stop::Failure(failure)), _) => Err(failure),
        (Err(Stop::Output(error)), _) => self::written(Err(error)),
        (Ok(()), flushed) => self::written(flushed),
    }
}

/// What became of a page on standard output.
///
/// # Errors
/// Of standard output other than a closed pipe.
pub fn written(written: io::Result<()>) -> Result<EndStatus, Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::setup(format!(
            "standard output cannot be written: {error}"
        ))),
        _ => Ok(EndStatus::Code(0)),
    }
}

/// Prints one message to standard error. A failure to write changes nothing.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "relive: {}", escape::lines(text));
}

/// Prints one message to standard error if that is a terminal.
pub fn tell(text: &str) {
    if io::stderr().is_terminal() {
        complain(text);
    }
}
