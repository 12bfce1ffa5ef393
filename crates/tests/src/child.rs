//! Runs one child to its end, with a time limit, its output through two pipes.
//!
//! Must never kill anything but the process group that it made for the child itself.

use crate::escape::shell_quote;
use crate::needs::SEARCH_PATH;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// More output than this from one pipe fails the run: a guest in a wild loop must not fill
/// the memory.
const OUTPUT_LIMIT: usize = 32 << 20;

/// Limit on the time that the rest of a child's process group may take to die after it.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// One child to run.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Variables added to the fixed environment.
    pub env: Vec<(&'static str, String)>,
    /// The working folder.
    pub dir: PathBuf,
    /// Bytes on standard input; `None` for `/dev/null`.
    pub stdin: Option<Vec<u8>>,
    /// Time limit.
    pub timeout: Duration,
}

/// The end of a child and its output.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Everything on standard output.
    pub stdout: Vec<u8>,
    /// Everything on standard error.
    pub stderr: Vec<u8>,
    /// Exit status or signal.
    pub status: ExitStatus,
    /// A shell line that does the same by hand.
    pub by_hand: String,
}

impl Spec {
    /// The shell line that does the same by hand.
    pub fn by_hand(&self) -> String {
        let mut line = format!(
            "mkdir -p {0} && cd {0} && ",
            shell_quote(self.dir.as_os_str())
        );
        if let Some(bytes) = &self.stdin {
            let quoted: String = bytes.iter().map(|b| format!("\\x{b:02x}")).collect();
            line.push_str(&format!("printf '{quoted}' | "));
        }
        line.push_str("env -i");
        for (key, value) in self.environment() {
            line.push_str(&format!(" {key}={}", shell_quote(OsStr::new(&value))));
        }
        for word in &self.argv {
            line.push(' ');
            line.push_str(&shell_quote(word));
        }
        if self.stdin.is_none() {
            line.push_str(" </dev/null");
        }
        line
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![("PATH", SEARCH_PATH.to_owned()), ("LC_ALL", "C".to_owned())];
        all.extend(self.env.iter().cloned());
        all
    }

    /// Runs the child to its end.
    ///
    /// # Errors
    /// It could not be started, ran past its limit (and was killed with its process group),
    /// left a process behind (killed too, if it stayed in the group), or wrote too much.
    pub fn run(&self) -> Result<Outcome, String> {
        let mut command = Command::new(&self.argv[0]);
        command
            .args(&self.argv[1..])
            .env_clear()
            .envs(self.environment());
        command.current_dir(&self.dir).process_group(0);
        command.stdin(if self.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = command.spawn();
        let mut child = started.map_err(|e| format!("cannot start: {e}\n  {}", self.by_hand()))?;
        let deadline = Instant::now() + self.timeout;
        if let Some((mut pipe, bytes)) = child.stdin.take().zip(self.stdin.clone()) {
            // A child that ends without reading its input is not an error here.
            thread::spawn(move || pipe.write_all(&bytes).ok());
        }
        let stdout = drain(child.stdout.take().expect("stdout is a pipe"));
        let stderr = drain(child.stderr.take().expect("stderr is a pipe"));
        let status = wait_until(&mut child, deadline);
        let out = finish(&stdout, deadline);
        let err = finish(&stderr, deadline);
        if status.is_none() || out.is_none() || err.is_none() {
            kill_own_group(&child);
            child.wait().map_err(|e| format!("wait: {e}"))?;
        }
        let Some(status) = status else {
            let grace = Instant::now() + Duration::from_secs(1);
            let seen =
                |pipe, got: Option<Vec<u8>>| tail(&got.or(finish(pipe, grace)).unwrap_or_default());
            return Err(format!(
                "ran past its limit of {} s\n  {}\nstdout ends:\n{}\nstderr ends:\n{}",
                self.timeout.as_secs(),
                self.by_hand(),
                seen(&stdout, out),
                seen(&stderr, err)
            ));
        };
        let (Some(stdout), Some(stderr)) = (out, err) else {
            return Err(format!(
                "a process it left behind keeps its output open\n  {}",
                self.by_hand()
            ));
        };
        if !group_ends(&child, Instant::now() + LAST_BREATH) {
            kill_own_group(&child);
            return Err(format!(
                "left a process behind in its group\n  {}\nits stderr ends:\n{}",
                self.by_hand(),
                tail(&stderr)
            ));
        }
        if stdout.len().max(stderr.len()) > OUTPUT_LIMIT {
            return Err(format!(
                "wrote more than {OUTPUT_LIMIT} bytes\n  {}",
                self.by_hand()
            ));
        }
        Ok(Outcome {
            stdout,
            stderr,
            status,
            by_hand: self.by_hand(),
        })
    }
}

/// The last 2 000 bytes, as text.
pub fn tail(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(2000)..]).into_owned()
}

fn drain(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut buffer = [0; 16384];
        while let Ok(got @ 1..) = pipe.read(&mut buffer) {
            if kept.len() <= OUTPUT_LIMIT {
                kept.extend_from_slice(&buffer[..got]);
            }
        }
        // The receiver is gone after a time-out.
        sender.send(kept).ok();
    });
    receiver
}

fn finish(pipe: &Receiver<Vec<u8>>, deadline: Instant) -> Option<Vec<u8>> {
    // A child that ended in time may leave its last bytes to a reader that is slow to wake.
    let left = deadline
        .saturating_duration_since(Instant::now())
        .max(Duration::from_millis(200));
    pipe.recv_timeout(left).ok()
}

fn wait_until(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    let mut pause = Duration::from_micros(300);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn kill_own_group(child: &Child) {
    // The group may be gone already, as it should.
    kill_process_group(group_of(child), Signal::KILL).ok();
}

fn group_of(child: &Child) -> Pid {
    let id = i32::try_from(child.id()).ok();
    id.and_then(Pid::from_raw).expect("a child has an id")
}

/// Waits until no process of the group lives; `false` at the deadline.
fn group_ends(child: &Child, deadline: Instant) -> bool {
    let group = group_of(child);
    // A zombie that is not reaped yet is still a member, but counts as dead.
    while test_kill_process_group(group).is_ok() && has_live_member(group) {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Searches `/proc` for a process of the group that is not a zombie (proc(5), `stat`: the fields
/// behind the name in brackets are state, parent, group).
fn has_live_member(group: Pid) -> bool {
    let wanted = group.as_raw_nonzero().to_string();
    let processes = std::fs::read_dir("/proc").expect("/proc is readable");
    processes.flatten().any(|entry| {
        // Entries that are no processes, or have gone meanwhile, have no such file.
        let text = std::fs::read(entry.path().join("stat")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut fields = text
            .rsplit_once(')')
            .map_or("", |parts| parts.1)
            .split_ascii_whitespace();
        let (state, found) = (fields.next(), fields.nth(1));
        found == Some(wanted.as_str()) && !matches!(state, Some("Z" | "X"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout: Duration) -> Spec {
        Spec {
            argv: ["/bin/sh", "-c", script].map(OsString::from).to_vec(),
            env: vec![("WORD", "a b".into())],
            dir: PathBuf::from("/"),
            stdin: Some(b"in\n".to_vec()),
            timeout,
        }
    }

    #[test]
    fn output_and_status_come_back() {
        let spec = shell(
            "read x; echo $x $WORD; echo err >&2; exit 3",
            Duration::from_secs(20),
        );
        let outcome = spec.run().unwrap();
        assert_eq!(outcome.stdout, b"in a b\n");
        assert_eq!(outcome.stderr, b"err\n");
        assert_eq!(outcome.status.code(), Some(3));
        assert!(outcome.by_hand.contains("WORD='a b'"));
    }

    #[test]
    fn a_child_that_hangs_is_ended_with_its_group() {
        let error = shell("echo started; sleep 100 & wait", Duration::from_millis(300)).run();
        let text = error.unwrap_err();
        assert!(
            text.contains("ran past its limit") && text.contains("started"),
            "{text}"
        );
    }

    #[test]
    fn a_process_left_behind_is_an_error() {
        let error = shell("sleep 100 & exit 0", Duration::from_millis(300))
            .run()
            .unwrap_err();
        assert!(error.contains("left behind"), "{error}");
    }

    #[test]
    fn a_process_left_behind_in_silence_is_an_error() {
        let spec = shell(
            "sleep 100 >/dev/null 2>&1 & exit 0",
            Duration::from_secs(20),
        );
        let error = spec.run().unwrap_err();
        assert!(error.contains("in its group"), "{error}");
    }
}
