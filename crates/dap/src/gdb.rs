//! gdb as a child process: started by `relive debug`, sent commands, read by a thread.
//!
//! `relive debug` and its descendants are one process group of their own, so that none of them
//! survives, whatever state they are in.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::event::Event;
use crate::mi;

/// How long it may take to exit by itself.
const LAST_BREATH: Duration = Duration::from_secs(2);
/// Longest line that is read from gdb: the contents of memory are its longest.
const LINE_MAX: u64 = 64 << 20;

/// A running gdb.
pub struct Gdb {
    child: Child,
    input: Option<ChildStdin>,
    token: u64,
}

impl Gdb {
    /// Starts it; its output arrives as events.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command, events: &Sender<Event>) -> io::Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Some of gdb's messages are parsed, and exist as text only.
            .env("LC_ALL", "C.UTF-8")
            .process_group(0);
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        if let Some(out) = child.stdout.take() {
            let events = events.clone();
            thread::spawn(move || {
                lines(out, &mut |line| {
                    events.send(Event::Gdb(mi::parse(line))).is_ok()
                });
                // The session is over: its receiver is gone.
                let _ = events.send(Event::GdbGone);
            });
        }
        if let Some(err) = child.stderr.take() {
            let events = events.clone();
            thread::spawn(move || {
                lines(err, &mut |line| {
                    let text = String::from_utf8_lossy(line).into_owned();
                    events.send(Event::Said(text)).is_ok()
                });
                // As above.
                let _ = events.send(Event::AllSaid);
            });
        }
        Ok(Self {
            child,
            input,
            token: 0,
        })
    }

    /// Sends a command; returns the number that its answer will have.
    ///
    /// # Errors
    /// When gdb does not read any more.
    pub fn send(&mut self, command: &str) -> io::Result<u64> {
        self.token += 1;
        // Foreign text is quoted, and has no line ends; this is the last defence.
        let line = format!("{}{}\n", self.token, command.replace(['\n', '\r'], " "));
        match &mut self.input {
            Some(input) => input.write_all(line.as_bytes()).map(|()| self.token),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Whether it has ended. It stays a zombie, so that its group's id is not reused.
    pub fn has_ended(&self) -> bool {
        const LOOK: WaitIdOptions = WaitIdOptions::EXITED
            .union(WaitIdOptions::NOHANG)
            .union(WaitIdOptions::NOWAIT);
        let state = self.pid().map(|pid| waitid(WaitId::Pid(pid), LOOK));
        !matches!(state, Some(Ok(None)))
    }

    /// Ends it, and all processes that it has started.
    pub fn end(mut self) -> Option<ExitStatus> {
        // It may be gone already, or hang.
        let _ = self.send("-gdb-exit");
        self.input = None;
        let limit = Instant::now() + LAST_BREATH;
        while !self.has_ended() && Instant::now() < limit {
            thread::sleep(Duration::from_millis(5));
        }
        if let Some(group) = self.pid() {
            // Usually no process is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.child.wait().ok()
    }
}

/// Reads lines until the end, or until the receiver refuses them.
fn lines(input: impl io::Read, each: &mut dyn FnMut(&[u8]) -> bool) {
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        match io::Read::take(&mut input, LINE_MAX).read_until(b'\n', &mut line) {
            Ok(1..) => {}
            _ => return,
        }
        if !each(line.strip_suffix(b"\n").unwrap_or(&line)) {
            return;
        }
    }
}
