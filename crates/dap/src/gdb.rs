//! gdb as a child: started by `relive debug`, told commands, read by a thread.
//!
//! `relive debug` and all below it are one process group of their own, so that nothing of them
//! stays behind, whatever state they are in.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::event::Event;
use crate::mi;

/// How long it may take to end by itself.
const LAST_BREATH: Duration = Duration::from_secs(2);
/// Longest line of gdb's that is read: the contents of memory are its longest.
const LINE_MAX: u64 = 64 << 20;

/// A gdb.
pub struct Gdb {
    child: Child,
    input: Option<ChildStdin>,
    token: u64,
}

impl Gdb {
    /// Starts it; what it prints comes as events.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command, events: &Sender<Event>) -> io::Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Some of what gdb says has to be understood, and is said in words only.
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
                // Nobody listens any more: the session is over.
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

    /// Sends a command; the number that its answer will have.
    ///
    /// # Errors
    /// gdb does not read any more.
    pub fn send(&mut self, command: &str) -> io::Result<u64> {
        self.token += 1;
        // Words of others are quoted, and have no line ends; this is the last wall.
        let line = format!("{}{}\n", self.token, command.replace(['\n', '\r'], " "));
        match &mut self.input {
            Some(input) => input.write_all(line.as_bytes()).map(|()| self.token),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Whether it has ended. It stays a zombie, so that its group's number is nobody else's.
    pub fn has_ended(&self) -> bool {
        const LOOK: WaitIdOptions = WaitIdOptions::EXITED
            .union(WaitIdOptions::NOHANG)
            .union(WaitIdOptions::NOWAIT);
        let state = self.pid().map(|pid| waitid(WaitId::Pid(pid), LOOK));
        !matches!(state, Some(Ok(None)))
    }

    /// Ends it, and everything that it has started.
    pub fn end(mut self) -> Option<ExitStatus> {
        // It may be gone already, or not listen.
        let _ = self.send("-gdb-exit");
        self.input = None;
        let limit = Instant::now() + LAST_BREATH;
        while !self.has_ended() && Instant::now() < limit {
            thread::sleep(Duration::from_millis(5));
        }
        if let Some(group) = self.pid() {
            // Mostly nobody is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.child.wait().ok()
    }
}

/// Reads lines until the end, or until nobody wants them.
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
