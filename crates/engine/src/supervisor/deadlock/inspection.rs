//! The threads of all processes below this one that sleep until another one wakes them, by `/proc`
//! (proc(5)). A file that cannot be read is a thread that runs.

use std::fmt;
use std::fs;
use std::path::Path;

use relive_host::layout::{FAR_END, FAR_START, WINDOW_END};

use super::holder;

/// Most threads of a tree that is looked at.
const MOST: usize = 4096;

/// A thread that sleeps without a time limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingThread {
    /// Its number, which is the program's own.
    pub tid: u32,
    /// Its name (PR_SET_NAME).
    pub name: String,
    /// Where it sleeps.
    pub wait: Awaited,
    /// How often it has been put to sleep, or off its processor.
    pub slept: u64,
}

/// A wait that only the program's own threads or processes can end, signals aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Awaited {
    /// futex(2) on a word.
    Word {
        /// Its address.
        addr: u64,
        /// The thread that holds the lock, where the word is one.
        holder: Option<u32>,
    },
    /// wait4(2) or waitid(2).
    Children,
}

/// The threads of the tree.
pub struct Tree {
    /// How many there are, asleep or not.
    pub threads: usize,
    /// Those that sleep without a time limit.
    pub asleep: Vec<WaitingThread>,
}

impl Awaited {
    /// The thread that holds the lock.
    pub fn holder(&self) -> Option<u32> {
        match self {
            Self::Word { holder, .. } => *holder,
            Self::Children => None,
        }
    }
}

impl fmt::Display for WaitingThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.tid)
    }
}

/// Looks at all of them; `None`: `/proc` does not tell, or they are too many.
pub fn tree() -> Option<Tree> {
    let mut tree = Tree {
        threads: 0,
        asleep: Vec::new(),
    };
    let mut processes = children(std::process::id())?;
    while let Some(process) = processes.pop() {
        processes.extend(children(process).unwrap_or_default());
        for tid in tasks(process).unwrap_or_default() {
            let folder = format!("/proc/{process}/task/{tid}");
            let folder = Path::new(&folder);
            let Some(status) = Status::read(folder) else {
                continue;
            };
            tree.threads += 1;
            let wait = status.sleeps.then(|| wait(folder, process)).flatten();
            tree.asleep.extend(wait.map(|wait| WaitingThread {
                tid,
                name: status.name,
                wait,
                slept: status.slept,
            }));
        }
        if tree.threads > MOST {
            return None;
        }
    }
    Some(tree)
}

/// The children of all threads of a process.
fn children(process: u32) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for tid in tasks(process)? {
        let text = fs::read_to_string(format!("/proc/{process}/task/{tid}/children")).ok()?;
        all.extend(
            text.split_whitespace()
                .filter_map(|n| n.parse::<u32>().ok()),
        );
    }
    Some(all)
}

fn tasks(process: u32) -> Option<Vec<u32>> {
    let folder = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Some(names.filter_map(|name| name.parse().ok()).collect())
}

/// A part of `/proc/…/status`.
struct Status {
    name: String,
    sleeps: bool,
    slept: u64,
}

impl Status {
    /// `None`: there is no such thread any more.
    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read(folder.join("status")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let field = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
        };
        let state = field("State")?;
        let number = |name| field(name).and_then(|n| n.parse::<u64>().ok());
        let slept = number("voluntary_ctxt_switches")? + number("nonvoluntary_ctxt_switches")?;
        // Ended, and not waited for.
        (!state.starts_with(['Z', 'X'])).then(|| Self {
            name: field("Name").unwrap_or_default().to_owned(),
            sleeps: state.starts_with('S'),
            slept,
        })
    }
}

/// The wait of a sleeping thread, if it is one without a time limit.
fn wait(folder: &Path, process: u32) -> Option<Awaited> {
    let text = fs::read_to_string(folder.join("syscall")).ok()?;
    let mut words = text.split_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let args: Vec<u64> = words
        .map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())
        .collect();
    match number {
        libc::SYS_wait4 | libc::SYS_waitid => Some(Awaited::Children),
        libc::SYS_futex => {
            let &[addr, operation, value, limit, ..] = args.as_slice() else {
                return None;
            };
            let guests = addr < WINDOW_END || (FAR_START..FAR_END).contains(&addr);
            let operation = operation as i32 & libc::FUTEX_CMD_MASK;
            let waits = matches!(
                operation,
                libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI
            );
            (guests && waits && limit == 0).then(|| Awaited::Word {
                addr,
                holder: holder::of(process, addr, operation, value as u32),
            })
        }
        _ => None,
    }
}
