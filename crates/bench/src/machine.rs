//! The machine in words, so that figures can be read later.

use std::path::Path;
use std::process::Command;

use relive_tests::needs::find_tool;
use serde::Serialize;

/// What the figures were taken on.
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
    /// Programs measured and measured with, with their versions.
    pub programs: Vec<String>,
}

impl Machine {
    /// This machine, now.
    pub fn here(relive: &Path) -> Self {
        let memory = field("/proc/meminfo", "MemTotal:");
        let kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
        let load = read("/proc/loadavg");
        let mut programs = vec![version(relive, "--version")];
        for (name, argument) in [
            ("gcc", "--version"),
            ("python3", "--version"),
            ("sqlite3", "--version"),
            ("xz", "--version"),
            ("git", "--version"),
            ("redis-server", "--version"),
            ("qemu-x86_64", "--version"),
            ("valgrind", "--version"),
            ("gdb", "--version"),
        ] {
            if let Some(path) = find_tool(name) {
                let text = version(&path, argument);
                programs.push(if text.to_lowercase().contains(&name[..2]) {
                    text
                } else {
                    format!("{name} {text}")
                });
            }
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

/// What a program says about its version, up to the number.
fn version(program: &Path, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    let text = output.map_or_else(
        |_| String::new(),
        |o| String::from_utf8_lossy(&o.stdout).into_owned(),
    );
    let line = text.lines().next().unwrap_or("unknown");
    // Behind the number comes a date or a distribution's own numbering.
    let mut words: Vec<&str> = Vec::new();
    for word in line.split(' ').filter(|word| !word.starts_with('(')) {
        words.push(word);
        let word = word.trim_start_matches(|c: char| !c.is_ascii_digit());
        if word.contains('.') {
            break;
        }
    }
    words.join(" ")
}
