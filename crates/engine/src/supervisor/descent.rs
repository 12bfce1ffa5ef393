//! Whether a process is one of the program's: a child of the supervisor, or a child of one. Must never allocate: a signal
//! handler asks.

use std::ffi::CStr;
use std::io::Write;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::read;

/// Generations that are looked at; no tree of processes is deeper in earnest.
const DEEPEST: u32 = 4096;

/// Whether a process descends from this one, as far as `/proc` tells.
pub fn is_own(mut pid: u32) -> bool {
    let own = std::process::id();
    for _ in 0..DEEPEST {
        match parent(pid) {
            Some(parent) if parent == own => return true,
            Some(parent) => pid = parent,
            None => return false,
        }
    }
    false
}

/// The parent of a process (proc_pid_stat(5)).
fn parent(pid: u32) -> Option<u32> {
    let mut path = [0; 32];
    // The last byte ends the text.
    write!(&mut path[..31], "/proc/{pid}/stat").ok()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = [0; 256];
    let length = read(&file, &mut bytes).ok()?;
    // The name stands in brackets, and may have some itself; state and parent follow.
    let text = bytes.get(..length)?;
    let behind = text.iter().rposition(|&byte| byte == b')')? + 1;
    let mut words = std::str::from_utf8(&text[behind..])
        .ok()?
        .split_ascii_whitespace();
    words.nth(1)?.parse().ok().filter(|&parent| parent != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn children_and_theirs_are_own() {
        let mut shell = Command::new("sh");
        let script = "sh -c 'echo $$; read line'; true";
        let shell = shell
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut shell = shell.spawn().expect("sh starts");
        let mut line = String::new();
        let out = shell.stdout.as_mut().expect("it is a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line)
            .expect("it writes");
        let grandchild: u32 = line.trim().parse().expect("it writes its number");
        assert!(is_own(shell.id()) && is_own(grandchild));
        assert_eq!(parent(grandchild), Some(shell.id()));
        drop(shell.stdin.take());
        shell.wait().expect("it ends");
        assert!(!is_own(grandchild), "it is gone");
        for other in [1, std::process::id(), std::os::unix::process::parent_id()] {
            assert!(!is_own(other), "{other}");
        }
    }
}
