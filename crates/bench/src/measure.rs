//! Runs one child and its descendants to their end, and measures their usage.
//!
//! CPU time and memory come from wait4(2): of the child and of every descendant that was waited
//! for, so the supervisor of a recording counts as much as the program. Must never kill anything
//! but the process group that it made.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use relive_tests::escape::shell_quote;
use relive_tests::needs::SEARCH_PATH;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

/// A command line with its files and folder.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// File on standard input.
    pub stdin: Option<PathBuf>,
    /// File for standard output; none for `/dev/null`.
    pub stdout: Option<PathBuf>,
    /// File for standard error.
    pub stderr: PathBuf,
    /// Working folder.
    pub folder: PathBuf,
}

/// The usage of a tree of processes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Usage {
    /// Seconds from start to end.
    pub wall: f64,
    /// Seconds of CPU time in user mode, of all processes.
    pub user: f64,
    /// Seconds of CPU time in the kernel, of all processes.
    pub system: f64,
    /// Bytes of memory of the largest process at its largest. A child starts with its parent's
    /// peak, so values up to [`own_peak`] mean nothing.
    pub peak: u64,
}

impl Usage {
    /// Seconds of CPU time.
    pub fn cpu(&self) -> f64 {
        self.user + self.system
    }

    /// The usage of two runs, one after the other.
    pub fn then(self, next: Self) -> Self {
        Self {
            wall: self.wall + next.wall,
            user: self.user + next.user,
            system: self.system + next.system,
            peak: self.peak.max(next.peak),
        }
    }

    /// The mean of two runs; the peak of both.
    pub fn mean(&self, other: &Self) -> Self {
        let both = self.then(*other);
        Self {
            wall: both.wall / 2.0,
            user: both.user / 2.0,
            system: both.system / 2.0,
            ..both
        }
    }
}

/// A child that runs.
pub struct Running {
    child: Child,
    started: Instant,
    spec: Spec,
}

impl Spec {
    /// The shell line that does the same by hand.
    pub fn by_hand(&self) -> String {
        let words: Vec<String> = self.argv.iter().map(|word| shell_quote(word)).collect();
        words.join(" ")
    }

    /// Starts it in a process group of its own.
    ///
    /// # Errors
    /// A file cannot be opened, or the program not started.
    pub fn start(&self) -> Result<Running> {
        let open = |path: &Path| File::open(path).with_context(|| path.display().to_string());
        let create = |path: &Path| File::create(path).with_context(|| path.display().to_string());
        let mut command = Command::new(&self.argv[0]);
        command
            .args(&self.argv[1..])
            .env_clear()
            .envs([("PATH", SEARCH_PATH), ("LC_ALL", "C")])
            .env("HOME", &self.folder)
            // Beside the folder, which is emptied: later runs use Relive's cache too.
            .env("RELIVE_CACHE_DIR", self.folder.with_file_name("cache"))
            .current_dir(&self.folder)
            .process_group(0)
            .stderr(create(&self.stderr)?)
            .stdin(match &self.stdin {
                Some(path) => open(path)?.into(),
                None => Stdio::null(),
            })
            .stdout(match &self.stdout {
                Some(path) => create(path)?.into(),
                None => Stdio::null(),
            });
        forget_own_peak();
        let started = Instant::now();
        let child = command.spawn().with_context(|| self.by_hand())?;
        Ok(Running {
            child,
            started,
            spec: self.clone(),
        })
    }
}

impl Running {
    /// Waits for the end.
    ///
    /// # Errors
    /// It did not end in time (and was killed with its group), or ended with an error; the end
    /// of its standard error is in the text.
    pub fn finish(self, limit: Duration) -> Result<Usage> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let id = id.context("a child has an id")?;
        let ended = pidfd_open(id, PidfdFlags::empty())?;
        let timeout = Timespec::try_from(limit)?;
        let ready = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&timeout))?;
        if ready == 0 {
            // It may end by itself at the last moment; then there is no such group.
            kill_process_group(id, Signal::KILL).ok();
        }
        let (status, usage) = wait(id, self.started)?;
        let said = || tail(&self.spec.stderr);
        let line = self.spec.by_hand();
        if ready == 0 {
            bail!("no end within {} s: {line}{}", limit.as_secs(), said());
        }
        if !status.success() {
            bail!("{status}: {line}{}", said());
        }
        Ok(usage)
    }

    /// Whether it has ended already (it is not waited for).
    pub fn has_ended(&self) -> bool {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let Some(ended) = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok()) else {
            return true;
        };
        let now = Timespec::default();
        poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

fn wait(id: Pid, started: Instant) -> Result<(ExitStatus, Usage)> {
    // SAFETY: rusage is plain numbers, for which all zeros are a value.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    // SAFETY: both pointers are to live variables of the types that wait4(2) writes. No other code
    // waits for this child: its `Child` is dropped without.
    let waited = unsafe { libc::wait4(id.as_raw_nonzero().get(), &mut status, 0, &mut used) };
    if waited < 0 {
        bail!("wait4: {}", std::io::Error::last_os_error());
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let usage = Usage {
        wall: started.elapsed().as_secs_f64(),
        user: seconds(used.ru_utime),
        system: seconds(used.ru_stime),
        peak: used.ru_maxrss as u64 * 1024,
    };
    Ok((ExitStatus::from_raw(status), usage))
}

/// A child's peak begins at that of the process that starts it: proc(5), `clear_refs`.
fn forget_own_peak() {
    // Where this fails the floor of the figures is higher, and the report says so.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Bytes of memory of this process at its largest since it last started a child.
pub fn own_peak() -> u64 {
    // SAFETY: rusage is plain numbers, for which all zeros are a value.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live variable of the type that getrusage(2) writes.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut used) };
    used.ru_maxrss as u64 * 1024
}

fn tail(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(600)..]).into_owned();
    if text.trim().is_empty() {
        text.trim().to_owned()
    } else {
        format!("\n{}", text.trim())
    }
}

/// A hash of a file's bytes.
///
/// # Errors
/// It cannot be read.
pub fn digest(path: &Path) -> Result<u128> {
    struct Sink(Xxh3);
    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut sink = Sink(Xxh3::new());
    let mut file = File::open(path).with_context(|| path.display().to_string())?;
    std::io::copy(&mut file, &mut sink)?;
    Ok(sink.0.digest128())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Spec {
        let folder = std::env::temp_dir();
        let own = format!("relive-bench-{}-{name}", std::process::id());
        Spec {
            argv: ["/bin/sh", "-c", script].map(OsString::from).to_vec(),
            stdin: None,
            stdout: None,
            stderr: folder.join(own),
            folder,
        }
    }

    #[test]
    fn what_descendants_use_counts() {
        let spec = shell(
            "busy",
            "(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done) & wait",
        );
        let usage = spec
            .start()
            .unwrap()
            .finish(Duration::from_secs(60))
            .unwrap();
        assert!(usage.cpu() > 0.0 && usage.wall > 0.0 && usage.peak > 0);
        fs::remove_file(spec.stderr).unwrap();
    }

    #[test]
    fn failures_and_hangs_are_errors_with_their_reason() {
        let spec = shell("fails", "echo because >&2; exit 3");
        let error = spec.start().unwrap().finish(Duration::from_secs(60));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("because") && text.contains('3'), "{text}");
        fs::remove_file(spec.stderr).unwrap();
        let spec = shell("hangs", "sleep 100");
        let error = spec.start().unwrap().finish(Duration::from_millis(100));
        assert!(error.unwrap_err().to_string().contains("no end"));
        fs::remove_file(spec.stderr).unwrap();
    }
}
