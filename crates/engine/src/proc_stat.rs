//! The state of a process or thread by `/proc/ID/stat` (proc(5)): read in one place.

use std::str::FromStr;

/// A part of `/proc/ID/stat` (proc(5)).
#[derive(Clone, Copy)]
pub struct Stat {
    /// One letter.
    pub state: u8,
    /// The number of threads of its process.
    pub threads: u32,
    /// How it has ended, as wait(2) gives it, if it has.
    pub status: Option<i32>,
    /// Page faults that needed no input or output.
    pub faults: u64,
    /// Resident pages of memory.
    pub resident: u64,
}

impl Stat {
    /// The state of a thread that is taken to run.
    const RUNS: Self = Self {
        state: b'?',
        threads: 1,
        status: None,
        faults: 0,
        resident: 0,
    };

    fn parse(text: &[u8]) -> Self {
        // The name, in parentheses, may hold any bytes. Behind it is the state, and the last field
        // is the status.
        let rest = text.rsplit(|&b| b == b')').next().unwrap_or_default();
        let mut fields = rest
            .split(|b| b.is_ascii_whitespace())
            .filter(|f| !f.is_empty());
        // Numbers as in proc(5): the state is field 3, and `nth` consumes the fields that it passes.
        let state = fields.next().and_then(|f| f.first()).copied();
        let faults = fields.nth(10 - 4).and_then(number);
        let threads = fields.nth(20 - 11).and_then(number);
        let resident = fields.nth(24 - 21).and_then(number);
        let status = fields.next_back().and_then(number);
        Self {
            state: state.unwrap_or(Self::RUNS.state),
            threads: threads.unwrap_or(Self::RUNS.threads),
            status,
            faults: faults.unwrap_or_default(),
            resident: resident.unwrap_or_default(),
        }
    }
}

fn number<T: FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// The state of a thread by `/proc`; `None`: there is no such thread. Without `/proc`, a thread is taken
/// to run. So it is in a confined replay, which may not read `/proc`: its supervisor notices when one of
/// its processes dies, and ends the others.
#[must_use]
pub fn stat(id: u32) -> Option<Stat> {
    if crate::confined::is_confined() {
        return Some(Stat::RUNS);
    }
    match crate::ids::stat(id) {
        Ok(text) => Some(Stat::parse(&text)),
        Err(e) => {
            let gone = match e.raw_os_error() {
                Some(libc::ESRCH) => true,
                Some(libc::ENOENT) => {
                    crate::ids::may_differ() || std::path::Path::new("/proc/self/stat").exists()
                }
                // No free descriptor, or no memory: no sign of the thread's end.
                _ => false,
            };
            (!gone).then_some(Stat::RUNS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_the_fields_behind_it() {
        let fields = "Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 42 18 19 20 21 22 9\n";
        let stat = Stat::parse(format!("7 (R 1) R ( ) {fields}").as_bytes());
        assert_eq!((stat.state, stat.threads, stat.status), (b'Z', 42, Some(9)));
        assert_eq!((stat.faults, stat.resident), (7, 21));
        let short = Stat::parse(b"7 (a) S");
        assert_eq!((short.state, short.threads, short.status), (b'S', 1, None));
    }
}
