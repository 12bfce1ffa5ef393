//! Files of `/proc` for the recorded process at its present position (proc(5)): for
//! `generate-core-file`, `info proc` and the like. Generated from the replay; this machine's
//! `/proc` is never read.

use std::fmt::Write;

use relive_engine::Failure;
use relive_engine::timeline::MapLine;

use crate::debuggee::Debuggee;

/// Limit on the bytes of arguments.
const ARGUMENTS: u64 = 6 << 20;
/// Bits of protection, and the letters for them.
const LETTERS: [(u32, char); 3] = [
    (libc::PROT_READ as u32, 'r'),
    (libc::PROT_WRITE as u32, 'w'),
    (libc::PROT_EXEC as u32, 'x'),
];

impl Debuggee {
    /// The content of a file of `/proc`; `None`: it is not one of the recorded process's, or not
    /// supported.
    pub(crate) fn proc_file(&mut self, path: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let Some(name) = self.proc_name(path) else {
            return Ok(None);
        };
        Ok(match name.as_str() {
            "maps" => Some(maps(&self.timeline.original().maps()?, false).into_bytes()),
            "smaps" => Some(maps(&self.timeline.original().maps()?, true).into_bytes()),
            "cmdline" => Some(self.arguments()?),
            "comm" => {
                let main = self.threads.iter().find(|t| t.index == 0);
                let name = main.or(self.threads.first()).map_or("", |t| &t.name);
                Some(format!("{name}\n").into_bytes())
            }
            _ => None,
        })
    }

    /// The name of a file in the process's folder, or in that of one of its threads.
    fn proc_name(&self, path: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(path).ok()?;
        let (pid, name) = text.strip_prefix("/proc/")?.split_once('/')?;
        if pid != self.pid.to_string() {
            return None;
        }
        let Some(of_thread) = name.strip_prefix("task/") else {
            return Some(name.to_owned());
        };
        let (tid, name) = of_thread.split_once('/')?;
        let known = self.threads.iter().any(|t| t.tid.to_string() == tid);
        known.then(|| name.to_owned())
    }

    /// The program's arguments, each with a zero behind it: they lie where its stack began
    /// (System V ABI, 3.4.1).
    fn arguments(&mut self) -> Result<Vec<u8>, Failure> {
        let rsp = self.program.1;
        let guest = self.timeline.original();
        let count = word(&guest.read(rsp, 8)?);
        let first = word(&guest.read(rsp.wrapping_add(8), 8)?);
        let maps = guest.maps()?;
        let around = maps.iter().find(|m| (m.start..m.end).contains(&first));
        let len = around.map_or(0, |m| (m.end - first).min(ARGUMENTS));
        let bytes = guest.read(first, len)?;
        let mut end = 0;
        for _ in 0..count.min(ARGUMENTS) {
            match bytes[end..].iter().position(|b| *b == 0) {
                Some(zero) => end += zero + 1,
                None => break,
            }
        }
        Ok(bytes[..end].to_vec())
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// The text of `maps`, or of `smaps`, in which all writable memory counts as changed.
fn maps(all: &[MapLine], detailed: bool) -> String {
    let mut text = String::new();
    for map in all {
        let letters: String = LETTERS
            .iter()
            .map(|(bit, letter)| if map.prot & bit == 0 { '-' } else { *letter })
            .collect();
        let line = format!(
            "{:08x}-{:08x} {letters}p {:08x} 00:00 0",
            map.start, map.end, map.offset
        );
        // Writing to a string does not fail.
        let _ = match map.name.is_empty() {
            true => writeln!(text, "{line} "),
            false => writeln!(text, "{line:<72} {}", map.name),
        };
        if detailed {
            let kib = (map.end - map.start) >> 10;
            let is_code = map.prot & libc::PROT_WRITE as u32 == 0 && !map.name.is_empty();
            let own = if is_code { 0 } else { kib };
            let _ = writeln!(
                text,
                "Size: {kib:>18} kB\nRss: {kib:>19} kB\nPrivate_Dirty: {own:>9} kB\n\
                 Anonymous: {own:>13} kB\nVmFlags: rd wr mr mw me"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_told_as_the_kernel_tells_them() {
        let map = |start, prot, name: &str| MapLine {
            start,
            end: start + 0x3000,
            prot,
            offset: 0x1000,
            name: name.to_owned(),
        };
        let all = [map(0x10000000, 5, "/bin/cat"), map(0x100000000000, 3, "")];
        let text = maps(&all, false);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        let first = [
            "10000000-10003000",
            "r-xp",
            "00001000",
            "00:00",
            "0",
            "/bin/cat",
        ];
        assert_eq!(lines[0], first);
        assert_eq!(lines[1][..2], ["100000000000-100000003000", "rw-p"]);
        let text = maps(&all, true);
        let own: Vec<&str> = text
            .lines()
            .filter(|l| l.starts_with("Anonymous:"))
            .collect();
        assert!(
            own[0].ends_with(" 0 kB") && own[1].ends_with(" 12 kB"),
            "{text}"
        );
    }
}
