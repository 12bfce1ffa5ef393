//! The writes of other processes to memory that a process shares, for a replay of that process
//! alone.
//!
//! A replay of the whole group goes first. In it a process that is asked for ([`Recorder`])
//! keeps the content of its shared memory when it hands the group's baton to another process,
//! and writes the differences down when it gets it back: these are the changes of the others.
//! The replay of the process alone ([`ForeignWrites`]) makes these changes at the same turns.
//! Both replays take the same turns, so a turn that is not written down is an error.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use relive_host::{GuestAddr, copy};

use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::modes::replay::hook_state::{self, ForeignFiles};
use crate::space::READ;

/// Asks a replay to write changes down: `FOLDER:INDEX,INDEX…`.
pub const RECORD: &str = "RELIVE_OTHER_WRITERS_RECORD";
/// Says where the changes are that a replay of one process alone makes.
pub const FOLDER: &str = "RELIVE_OTHER_WRITERS";

/// More shared memory than this is not compared at every turn.
const MOST: u64 = 1 << 30;
/// The unit of comparison, in bytes.
const WORD: usize = 8;

/// Writes changes down.
struct Recorder {
    /// The processes that are asked for, and the file of each for its changes.
    files: BTreeMap<u32, File>,
    /// Address and content of shared memory when the process last gave the baton away.
    before: Vec<(u64, Vec<u8>)>,
    /// The content in `before` is the parent's, from right before the process was made.
    inherited: bool,
}

/// The recorder of this process, if it is asked for. Process-wide: processes are born behind the session's
/// back, by fork in the midst of a call.
static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

fn with<R>(f: impl FnOnce(&mut Recorder) -> Result<R>) -> Result<Option<R>> {
    let mut recorder = RECORDER.lock().expect("no thread panics: panics abort");
    recorder.as_mut().map(f).transpose()
}

/// The value of [`RECORD`].
#[must_use]
pub fn order(folder: &Path, processes: &[u32]) -> String {
    let list: Vec<String> = processes.iter().map(u32::to_string).collect();
    format!("{}:{}", folder.display(), list.join(","))
}

/// The recording that the environment asks for: a folder, and the processes.
fn requested() -> Option<(PathBuf, Vec<u32>)> {
    let value = std::env::var(RECORD).ok()?;
    let (folder, list) = value.rsplit_once(':')?;
    let processes: std::result::Result<Vec<u32>, _> = list.split(',').map(str::parse).collect();
    Some((PathBuf::from(folder), processes.ok()?))
}

/// Opens the files to write, or for a replay that follows some processes alone those to read,
/// before the process is confined. Returns the latter.
///
/// # Errors
/// It cannot be opened.
pub fn open(follow: &[u32]) -> Result<Option<ForeignFiles>> {
    if let Some((folder, processes)) = requested() {
        let recorder = Recorder {
            files: open_each(&folder, &processes, options().append(true).create(true))?,
            before: Vec::new(),
            inherited: false,
        };
        *RECORDER.lock().expect("no thread panics: panics abort") = Some(recorder);
    }
    std::env::var_os(FOLDER)
        .map(|folder| open_each(Path::new(&folder), follow, options().read(true)))
        .transpose()
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// The files of these processes, as far as they are there.
fn open_each(
    folder: &Path,
    processes: &[u32],
    options: &OpenOptions,
) -> Result<BTreeMap<u32, File>> {
    let mut files = BTreeMap::new();
    for &process in processes {
        match options.open(folder.join(process.to_string())) {
            Ok(file) => drop(files.insert(process, file)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => {
                return Err(Failure::setup(format!(
                    "the changes of other processes: {e}"
                )));
            }
        }
    }
    Ok(files)
}

/// The process is about to give the group's baton to another one.
///
/// # Errors
/// The shared memory cannot be read.
pub fn leaves(machine: &Machine, process: u32) -> Result<()> {
    with(|r| {
        if r.files.contains_key(&process) && !std::mem::take(&mut r.inherited) {
            r.before = shared(machine)?;
        }
        Ok(())
    })
    .map(drop)
}

/// A child is about to be made.
///
/// # Errors
/// The shared memory cannot be read.
pub fn forks(machine: &Machine) -> Result<()> {
    with(|r| {
        r.before = shared(machine)?;
        Ok(())
    })
    .map(drop)
}

/// The calling process is a new member, and has not had the baton yet.
pub fn is_born() {
    // The closure cannot fail.
    let _ = with(|r| {
        r.inherited = true;
        Ok(())
    });
}

/// The process has the baton back for this turn.
///
/// # Errors
/// The changes cannot be written down.
pub fn returns(process: u32, turn: u32) -> Result<()> {
    with(|r| {
        let Some(mut file) = r.files.get(&process) else {
            return Ok(());
        };
        let mut changes = Vec::new();
        for (start, old) in &r.before {
            let mut new = vec![0; old.len()];
            copy::read(GuestAddr(*start), &mut new).map_err(|bad| unreadable(bad.0.0))?;
            differences(*start, old, &new, &mut changes);
        }
        let told = |e: std::io::Error| {
            Failure::setup(format!("cannot write the changes of other processes: {e}"))
        };
        file.write_all(&encode(turn, &changes)).map_err(told)
    })
    .map(drop)
}

fn unreadable(at: u64) -> Failure {
    Failure::unsupported(format!(
        "memory at {at:#x} is shared with other processes and cannot be read, so that their changes to it cannot be shown: replay all of them"
    ))
}

/// All shared memory of this process.
fn shared(machine: &Machine) -> Result<Vec<(u64, Vec<u8>)>> {
    let memory = machine.memory();
    let regions: Vec<(u64, u64, u32)> = memory
        .space
        .iter()
        .filter(|r| r.shared)
        .map(|r| (r.start, r.end, r.prot))
        .collect();
    drop(memory);
    let all: u64 = regions.iter().map(|(start, end, _)| end - start).sum();
    if all > MOST {
        return Err(Failure::unsupported(format!(
            "{} MiB of memory shared with other processes: too much to compare at every turn; replay all of them",
            all >> 20
        )));
    }
    regions
        .into_iter()
        .map(|(start, end, prot)| {
            if prot & READ == 0 {
                return Err(unreadable(start));
            }
            let mut bytes = vec![0; (end - start) as usize];
            // Behind the end of a file nothing can be read, nor written by others.
            if let Err(bad) = copy::read(GuestAddr(start), &mut bytes) {
                bytes.truncate((bad.0.0 - start) as usize);
            }
            Ok((start, bytes))
        })
        .collect()
}

/// Adds the runs of words that differ.
fn differences(start: u64, old: &[u8], new: &[u8], changes: &mut Vec<(u64, Vec<u8>)>) {
    const PAGE: usize = 4096;
    let mut open = false;
    for (page, (old, new)) in old.chunks(PAGE).zip(new.chunks(PAGE)).enumerate() {
        if old == new {
            open = false;
            continue;
        }
        for (word, (old, new)) in old.chunks(WORD).zip(new.chunks(WORD)).enumerate() {
            let differs = old != new;
            match changes.last_mut().filter(|_| open && differs) {
                Some((_, bytes)) => bytes.extend(new),
                None if differs => {
                    let at = start + (page * PAGE + word * WORD) as u64;
                    changes.push((at, new.to_vec()));
                }
                None => {}
            }
            open = differs;
        }
    }
}

/// Turn, number of changes; of each address, length and bytes. All little endian.
fn encode(turn: u32, changes: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = turn.to_le_bytes().to_vec();
    bytes.extend((changes.len() as u32).to_le_bytes());
    for (at, new) in changes {
        bytes.extend(at.to_le_bytes());
        bytes.extend((new.len() as u32).to_le_bytes());
        bytes.extend(new);
    }
    bytes
}

/// Address and bytes of each change of one turn.
type Turn = Vec<(u64, Vec<u8>)>;

/// The changes of one process, by turn; `None`: no replay has looked for any.
#[derive(Default)]
pub struct ForeignWrites(Option<BTreeMap<u32, Turn>>);

impl ForeignWrites {
    /// Those of a process, if a replay has looked for them. A process that never got the baton from
    /// another one has none.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn of(process: u32) -> Result<Self> {
        let told =
            |e: std::io::Error| Failure::setup(format!("the changes of other processes: {e}"));
        let found = hook_state::with(|s| {
            let files = s.foreign.as_ref()?;
            Some(files.get(&process).map(File::try_clone))
        });
        let file = match found {
            None => return Ok(Self::default()),
            Some(None) => return Ok(Self(Some(BTreeMap::new()))),
            Some(Some(file)) => file.map_err(told)?,
        };
        let bytes = super::mapped_copies::read_all(&file).map_err(told)?;
        decode(&bytes)
            .map(|turns| Self(Some(turns)))
            .ok_or_else(|| Failure::internal("the changes of other processes are cut off"))
    }

    /// Makes the changes of a turn. `false`: that turn never came.
    ///
    /// # Errors
    /// The memory is not there, or no replay has looked for changes.
    pub fn apply(&mut self, machine: &Machine, turn: u32) -> Result<bool> {
        let Some(turns) = &mut self.0 else {
            return Err(Failure::unsupported(
                "a process shares memory with others; a replay of it alone cannot show their writes: replay all of them",
            ));
        };
        let Some(changes) = turns.remove(&turn) else {
            return Ok(false);
        };
        let mut memory = machine.memory();
        for (at, bytes) in &changes {
            memory.poke(*at, bytes)?.map_err(|bad| {
                Failure::internal(format!(
                    "others changed memory at {:#x}, which is not there",
                    bad.0.0
                ))
            })?;
            super::watching::wrote(*at, bytes.len() as u64);
        }
        Ok(true)
    }
}

fn decode(mut rest: &[u8]) -> Option<BTreeMap<u32, Turn>> {
    fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
        let (head, behind) = rest.split_first_chunk::<N>()?;
        *rest = behind;
        Some(*head)
    }
    let mut all = BTreeMap::new();
    while !rest.is_empty() {
        let turn = u32::from_le_bytes(take(&mut rest)?);
        let count = u32::from_le_bytes(take(&mut rest)?);
        let mut changes = Vec::new();
        for _ in 0..count {
            let at = u64::from_le_bytes(take(&mut rest)?);
            let len = u32::from_le_bytes(take(&mut rest)?) as usize;
            let (bytes, behind) = rest.split_at_checked(len)?;
            rest = behind;
            changes.push((at, bytes.to_vec()));
        }
        all.insert(turn, changes);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_runs_of_words() {
        let old = vec![0; 3 * 4096];
        let mut new = old.clone();
        new[4094] = 1;
        new[4096] = 2;
        new[4104 + 7] = 3;
        new[3 * 4096 - 1] = 4;
        let mut changes = Vec::new();
        differences(0x10000, &old, &new, &mut changes);
        let shape: Vec<(u64, usize)> = changes.iter().map(|(at, b)| (*at, b.len())).collect();
        assert_eq!(shape, [(0x10ff8, 24), (0x12ff8, 8)]);
        let mut patched = old;
        for (at, bytes) in &changes {
            let at = (at - 0x10000) as usize;
            patched[at..at + bytes.len()].copy_from_slice(bytes);
        }
        assert_eq!(patched, new);
    }

    #[test]
    fn changes_are_read_as_they_were_written() {
        let first = vec![(7, vec![1, 2, 3]), (1 << 40, vec![])];
        let bytes = [encode(3, &first), encode(9, &[])].concat();
        let all = decode(&bytes).unwrap();
        assert_eq!(all[&3], first);
        assert_eq!(all[&9], vec![]);
        assert!(decode(&bytes[..bytes.len() - 1]).is_none());
    }
}
