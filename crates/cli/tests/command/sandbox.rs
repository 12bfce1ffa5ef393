//! A folder of its own for each test, and `relive` in it with a time limit.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longest run of any command here; only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(120);

/// A work folder with an empty folder for recordings.
pub struct Sandbox {
    folder: TempDir,
}

/// Outcome of a command.
#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Fails the test unless the command succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code(), Some(0), "{self:#?}");
        self
    }

    /// Fails the test unless Relive gave up with one sentence that contains `text`.
    #[track_caller]
    pub fn refused(self, text: &str) -> Self {
        assert_eq!(self.code(), Some(125), "{self:#?}");
        assert!(self.stderr.starts_with("relive: "), "{self:#?}");
        assert!(self.stderr.contains(text), "{text:?} is not in {self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }
}

impl Sandbox {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A path in the work folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder for recordings.
    pub fn base(&self) -> PathBuf {
        self.path("traces")
    }

    /// Names of the recordings, sorted.
    pub fn recordings(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.base()) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|n| n != "latest")
            .collect();
        names.sort();
        names
    }

    /// The target of `latest`.
    pub fn latest(&self) -> Option<PathBuf> {
        std::fs::canonicalize(self.base().join("latest")).ok()
    }

    /// `relive` with these words, not started yet.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relive"));
        command
            .args(words)
            .current_dir(self.folder.path())
            .env("RELIVE_TRACE_DIR", self.base())
            .env("RELIVE_CACHE_DIR", self.folder.path().join("translations"))
            .stdin(Stdio::null());
        // A shell that runs the tests in the background makes them ignore the keyboard, and nohup the end of the terminal.
        // SAFETY: signal(2) may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                libc::signal(libc::SIGQUIT, libc::SIG_DFL);
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            })
        };
        command
    }

    /// Runs `relive` with these words.
    pub fn relive(&self, words: &[&str]) -> Outcome {
        finish(self.command(words))
    }

    /// Compiles a C file as one does for debugging.
    pub fn compile(&self, source: &Path, name: &str) -> PathBuf {
        let program = self.path(name);
        let status = Command::new("cc")
            .args(["-g", "-pthread", "-o"])
            .args([program.as_os_str(), source.as_os_str()])
            .status();
        assert!(status.expect("the tests need a C compiler").success());
        program
    }
}

/// Runs a command to its end with its output caught.
pub fn finish(mut command: Command) -> Outcome {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = reader(child.stdout.take().unwrap());
    let stderr = reader(child.stderr.take().unwrap());
    let status = wait(&mut child);
    Outcome {
        status,
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

/// Waits for a child, and fails the test rather than for ever.
pub fn wait(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("a command does not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn reader(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The text of a path that is known to be text.
pub fn text(path: &(impl AsRef<OsStr> + ?Sized)) -> &str {
    path.as_ref().to_str().unwrap()
}
