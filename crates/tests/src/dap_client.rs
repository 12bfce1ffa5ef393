//! An editor, as the debug adapter sees it: starts `relive dap`, asks, listens.
//!
//! Must never wait without a limit, and leaves no process of the session behind: each has a
//! variable in its environment that names the session.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::needs::SEARCH_PATH;

/// The variable that names the session.
const MARK: &str = "RELIVE_TEST_SESSION";
/// Limit on the time of an answer; only a hang takes longer.
const LIMIT: Duration = Duration::from_secs(120);
/// Limit on the time that the processes of a session may live after it.
const LAST_BREATH: Duration = Duration::from_secs(10);

/// An editor.
pub struct Client {
    child: Child,
    input: Option<Box<dyn Write>>,
    messages: Receiver<Value>,
    mark: String,
    seq: i64,
}

impl Client {
    /// Starts the adapter; with `port` it waits for a connection, and gets one.
    ///
    /// # Errors
    /// It cannot be started, or does not wait.
    pub fn start(
        relive: &Path,
        arguments: &[OsString],
        folder: &Path,
        name: &str,
        port: bool,
    ) -> std::io::Result<Self> {
        let mark = format!("{name}-{}", std::process::id());
        let mut child = Command::new(relive)
            .args(arguments)
            .args(port.then_some(["--port", "0"]).into_iter().flatten())
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("HOME", "/nonexistent")
            .env("DEBUGINFOD_URLS", "")
            .env("RELIVE_TRACE_DIR", folder)
            .env(MARK, &mark)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if port { Stdio::piped() } else { Stdio::null() })
            .spawn()?;
        let (input, output) = ends(&mut child)?;
        let (sender, messages) = channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            // The test sees the end of the messages.
            while let Some(message) = message(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            child,
            input: Some(input),
            messages,
            mark,
            seq: 0,
        })
    }

    /// Sends a request; returns its number.
    ///
    /// # Errors
    /// The adapter does not read any more.
    pub fn ask(&mut self, command: &str, arguments: &Value) -> std::io::Result<i64> {
        self.seq += 1;
        let mut request = json!({ "seq": self.seq, "type": "request", "command": command });
        if !arguments.is_null() {
            request["arguments"] = arguments.clone();
        }
        let text = request.to_string();
        let whole = format!("Content-Length: {}\r\n\r\n{text}", text.len());
        self.send(whole.as_bytes())?;
        Ok(self.seq)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// As of [`Client::ask`].
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.input {
            Some(input) => input.write_all(bytes),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// The next message; `None` at the end, or if none comes in time.
    pub fn listen(&mut self) -> Option<Value> {
        self.messages.recv_timeout(LIMIT).ok()
    }

    /// Disconnects.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// Waits until the adapter and all its descendants have ended.
    ///
    /// # Errors
    /// A process lives on, and was killed.
    pub fn end(&mut self) -> Result<ExitStatus, String> {
        self.input = None;
        let limit = Instant::now() + LAST_BREATH;
        loop {
            let status = self.child.try_wait().map_err(|e| e.to_string())?;
            let left = self.processes("");
            if let (Some(status), true) = (status, left.is_empty()) {
                return Ok(status);
            }
            if Instant::now() > limit {
                return Err(format!("still there: {left:?}, the adapter: {status:?}"));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the processes of the session with a name.
    pub fn kill(&self, name: &str) -> usize {
        let all = self.processes(name);
        for (pid, _) in &all {
            // It may be gone already.
            kill_process(*pid, Signal::KILL).ok();
        }
        all.len()
    }

    /// Processes of the session with names that contain this: ids and names.
    fn processes(&self, name: &str) -> Vec<(Pid, String)> {
        let wanted = format!("{MARK}={}", self.mark);
        let mut found = Vec::new();
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for entry in all {
            let pid = entry.file_name().to_str().and_then(|t| t.parse().ok());
            let Some(pid) = pid.and_then(Pid::from_raw) else {
                continue;
            };
            // A process that has gone meanwhile, or is a zombie, has no environment.
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let is_ours = environment
                .split(|b| *b == 0)
                .any(|v| v == wanted.as_bytes());
            let called = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            if is_ours && called.contains(name) {
                found.push((pid, called.trim().to_owned()));
            }
        }
        found
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.kill("");
        // A failed test has already reported why.
        self.child.wait().ok();
    }
}

/// The ends for writing to the adapter and reading from it.
type Ends = (Box<dyn Write>, Box<dyn Read + Send>);

fn ends(child: &mut Child) -> std::io::Result<Ends> {
    let gone = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    let Some(errors) = child.stderr.take() else {
        let input = child.stdin.take().ok_or_else(gone)?;
        let output = child.stdout.take().ok_or_else(gone)?;
        return Ok((Box::new(input), Box::new(output)));
    };
    let mut line = String::new();
    BufReader::new(errors).read_line(&mut line)?;
    let at = line.trim().rsplit(' ').next().unwrap_or("");
    let stream = TcpStream::connect(at)?;
    Ok((Box::new(Connection(stream.try_clone()?)), Box::new(stream)))
}

/// The writing end of a connection: dropping it also ends reading.
struct Connection(TcpStream);

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The other side may have done so before.
        self.0.shutdown(Shutdown::Write).ok();
    }
}

/// Reads a message.
fn message(input: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        length = line.strip_prefix("Content-Length: ")?.trim().parse().ok()?;
    }
    let mut text = vec![0; length];
    input.read_exact(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}
