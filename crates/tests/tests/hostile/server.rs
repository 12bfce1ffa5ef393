//! A server over a recording that is made once.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, thread};

use relive_tests::child::Spec;
use relive_tests::{command, crate_dir};

const TMP: &str = env!("CARGO_TARGET_TMPDIR");
const LIMIT: Duration = Duration::from_secs(60);
/// Limit on the memory of a small server, in KiB.
const SMALL: u64 = 600 << 10;

/// A number that the environment sets.
///
/// # Panics
/// It is not a number.
pub fn variable(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|e| panic!("{name}={text:?}: {e}")),
        Err(_) => otherwise,
    }
}

/// A recording of the guest with this argument, made by the first caller.
pub fn recording(argument: &str) -> PathBuf {
    static ONE: Mutex<()> = Mutex::new(());
    let _alone = ONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = Path::new(TMP)
        .join(format!("hostile-{}", std::process::id()))
        .join(argument);
    let trace = folder.join("trace");
    if trace.join("manifest.json").exists() {
        return trace;
    }
    fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join("guest");
    let compiled = Command::new("gcc")
        .args(["-g", "-O1", "-pthread", "-fno-inline", "-o"])
        .args([&program, &crate_dir().join("sessions/guests/hostile.c")])
        .status()
        .expect("there is a compiler");
    assert!(compiled.success());
    let relive = command::relive().expect("the relive command");
    let recorded = Spec {
        argv: vec![
            relive.into(),
            "record".into(),
            "-o".into(),
            trace.clone().into(),
            program.into(),
            argument.into(),
        ],
        env: Vec::new(),
        dir: folder,
        stdin: None,
        timeout: LIMIT,
    };
    let outcome = recorded.run().expect("the guest ends");
    assert!(
        outcome.status.success(),
        "{}",
        String::from_utf8_lossy(&outcome.stderr)
    );
    trace
}

/// A server, which is ended when this is dropped.
pub struct Server {
    child: Child,
    /// Its socket.
    pub path: PathBuf,
}

impl Server {
    /// A server over the recording of the guest with this argument.
    pub fn of(argument: &str) -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let trace = recording(argument);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("relive-hostile-{}-{n}", std::process::id()));
        let child = Command::new(command::relive().expect("the relive command"))
            .args(["debug", "--serve"])
            .arg(format!("unix:{}", path.display()))
            .arg(&trace)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the server starts");
        let mut server = Self { child, path };
        let began = Instant::now();
        while !server.path.exists() {
            server.lives("at its start");
            assert!(began.elapsed() < LIMIT, "the server does not listen");
            thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Panics if it has ended.
    pub fn lives(&mut self, when: &str) {
        let ended = self.child.try_wait().expect("its state");
        assert!(ended.is_none(), "the server has ended {when}: {ended:?}");
    }

    /// Panics if it has grown without bounds.
    pub fn is_small(&self) {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its status");
        let line = status
            .lines()
            .find_map(|l| l.strip_prefix("VmHWM:"))
            .expect("its memory");
        let kib: u64 = line
            .split_whitespace()
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a number");
        assert!(kib < SMALL, "the server has used {kib} KiB");
    }

    /// Ends it, which every client may.
    pub fn end(mut self) {
        use std::io::Write;
        let mut stream =
            std::os::unix::net::UnixStream::connect(&self.path).expect("the server listens");
        stream.write_all(b"$k#6b").expect("the server reads");
        let began = Instant::now();
        while self.child.try_wait().expect("its state").is_none() {
            assert!(began.elapsed() < LIMIT, "the server does not end");
            thread::sleep(Duration::from_millis(5));
        }
        let status = self.child.wait().expect("its state");
        assert!(status.success(), "{status}");
        assert!(!self.path.exists(), "the socket file is left");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a failed test.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.path);
    }
}
