//! The machine in words, so that figures can be understood later.

use std::path::Path;
use std::process::Command;

use relive_tests::needs::find_tool;
use serde::Serialize;

/// The machine that the figures were taken on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's own name.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// Kernel release.
    pub kernel: String,
    /// Runnable tasks in the last minute before the run.
    pub load: f64,
    /// Programs measured, and tools of the measurement, with their versions.
    pub programs: Vec<String>,
}

impl Machine {
    /// This machine, now.
    pub fn here(relive: &Path) -> Self {
        let memory = field("/proc/meminfo", "MemTotal:");
        let kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
        let load = read("/proc/loadavg");
        let mut programs = vec![version("relive", relive)];
        for name in [
            "gcc",
            "python3",
            "sqlite3",
            "xz",
            "git",
            "redis-server",
            "qemu-x86_64",
            "valgrind",
            "gdb",
        ] {
            programs.extend(find_tool(name).map(|path| version(name, &path)));
        }
        Self {
            processor: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: kib * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: load
                .split(' ')
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(0.0),
            programs,
        }
    }

    /// One sentence.
    pub fn words(&self) -> String {
        format!(
            "{}, {} cores, {} GiB of memory, Linux {}; load before the run {}",
            self.processor,
            self.cores,
            (self.memory + (1 << 29)) >> 30,
            self.kernel,
            self.load
        )
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn field(path: &str, name: &str) -> String {
    let text = read(path);
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or("unknown")
        .trim_start_matches([' ', '\t', ':'])
        .to_owned()
}

/// A program's name with its version: the first word of its answer that looks like one.
fn version(name: &str, program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map_or_else(
        |_| String::new(),
        |o| String::from_utf8_lossy(&o.stdout).into_owned(),
    );
    let looks_like_one = |word: &&str| {
        let mut parts = word.split('.').take(2);
        parts.clone().count() == 2
            && parts.all(|part| part.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut words = text
        .split([' ', '\n', '(', ')'])
        .map(|word| word.trim_start_matches(|c: char| !c.is_ascii_digit()));
    let version = words.find(looks_like_one).unwrap_or("of unknown version");
    format!("{name} {version}")
}
