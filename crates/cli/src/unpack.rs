//! `relive unpack`: a packed recording becomes one among the others.
//!
//! A packed recording may come from a stranger. Nothing is written outside of the new folder, only
//! regular files and folders are created, and an incomplete recording is removed.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_trace::Trace;
use tar::{Archive, EntryType};

use crate::args::UnpackArgs;
use crate::format::size;
use crate::place::Place;
use crate::progress::Bar;
use crate::unfinished::Unfinished;
use crate::{escape, instruction_sets, output};

/// Most bytes of an entry's name that is in an entry of its own.
const LONGEST_NAME: u64 = 4096;
/// Most entries.
const MOST_ENTRIES: u64 = 1 << 20;
/// Size to which any packed recording may be unpacked, and beyond that the factor of its own size:
/// a larger one may have been made to fill the disk.
const ALWAYS: u64 = 1 << 30;
const TIMES: u64 = 200;

/// The entries of a recording's folder.
pub const PARTS: [&str; 11] = [
    "begin",
    "epochs",
    "index",
    "manifest.json",
    "tapes",
    "files",
    "input",
    "input.sums",
    "debug",
    "sources",
    "exact",
];

/// Unpacks a recording.
///
/// # Errors
/// The file is none, or damaged, or there is no room.
pub fn execute(args: &UnpackArgs) -> Result<EndStatus, Failure> {
    let no = |e: &dyn std::fmt::Display| {
        Failure::setup(format!("{} cannot be unpacked: {e}", args.file.display()))
    };
    let (archive, most) = open(&args.file).map_err(|e| no(&e))?;
    let most = if args.any_size { u64::MAX } else { most };
    let make = || match &args.output {
        Some(path) => {
            let place = Place::named(path)?;
            // A folder of its own: existing files stay unchanged.
            DirBuilder::new()
                .mode(0o700)
                .create(path)
                .map_err(|e| Failure::setup(format!("{} cannot be made: {e}", path.display())))?;
            Ok(place)
        }
        None => Place::numbered(&program(&args.file)),
    };
    let (place, unfinished) = Unfinished::begin(make, Place::path)?;
    let unpacked = fill(archive, place.path(), most)
        .map_err(|e| no(&e))
        .and_then(|()| check(place.path()));
    if let Err(failure) = unpacked {
        // Half of a recording is of no use; the first failure counts.
        let _ = std::fs::remove_dir_all(place.path());
        place.withdraw();
        return Err(failure);
    }
    drop(unfinished);
    place.make_latest()?;
    let trace = Trace::open(place.path()).map_err(Failure::setup)?;
    instruction_sets::complain_of_missing(&trace);
    output::print(|out| {
        let name = place.name();
        let next = if place.is_numbered() { "" } else { &name };
        let line = format!("unpacked as {name}; next: relive replay {next}");
        Ok(writeln!(out, "{}", line.trim_end())?)
    })
}

/// Unpacks a file into an empty folder; an incomplete recording is refused.
///
/// # Errors
/// The file is none, or damaged, or there is no room.
pub fn into(file: &Path, folder: &Path) -> Result<(), Failure> {
    let no = |e: &dyn std::fmt::Display| {
        Failure::setup(format!("{} cannot be unpacked: {e}", file.display()))
    };
    let (archive, most) = open(file).map_err(|e| no(&e))?;
    fill(archive, folder, most).map_err(|e| no(&e))?;
    check(folder)
}

/// A file with a progress bar for reading it.
struct Watched {
    file: File,
    done: u64,
    bar: Bar,
}

impl Read for Watched {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(bytes)?;
        self.done += read as u64;
        self.bar.at(self.done);
        Ok(read)
    }
}

/// A packed recording, and how much it may be unpacked to.
fn open(file: &Path) -> std::io::Result<(Archive<impl Read>, u64)> {
    let file = File::open(file)?;
    let length = file.metadata()?.len();
    let bar = Bar::bytes(length, "unpacking");
    let watched = Watched { file, done: 0, bar };
    let whole = zstd::Decoder::with_buffer(BufReader::new(watched))?;
    let most = ALWAYS.max(length.saturating_mul(TIMES));
    Ok((Archive::new(whole), most))
}

/// The recorded program's name, according to the file's name.
fn program(file: &Path) -> OsString {
    let name = file.file_name().unwrap_or_default().as_bytes();
    let name = name.strip_suffix(b".tar.zst").unwrap_or(name);
    let digits = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let stem = name[..name.len() - digits]
        .strip_suffix(b"-")
        .unwrap_or(name);
    OsStr::from_bytes(stem).to_owned()
}

/// Reads entries in raw form: no entry that describes later ones, of any length, is interpreted,
/// except for long names.
fn fill(mut archive: Archive<impl Read>, folder: &Path, most: u64) -> std::io::Result<()> {
    let mut left = most;
    let mut entries = 0;
    let mut long_name: Option<PathBuf> = None;
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        entries += 1;
        left = left
            .checked_sub(entry.size())
            .ok_or_else(|| too_much(most))?;
        if entries > MOST_ENTRIES {
            return Err(std::io::Error::other("it holds too many files"));
        }
        let kind = entry.header().entry_type();
        if kind == EntryType::GNULongName && entry.size() <= LONGEST_NAME {
            let mut name = Vec::new();
            entry.read_to_end(&mut name)?;
            let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
            long_name = Some(PathBuf::from(OsStr::from_bytes(&name[..end])));
            continue;
        }
        let name = match long_name.take() {
            Some(name) => name,
            None => entry.path()?.into_owned(),
        };
        if kind == EntryType::Directory {
            continue;
        }
        let Some(to) = (kind == EntryType::Regular)
            .then(|| inside(&name))
            .flatten()
        else {
            return Err(std::io::Error::other(format!(
                "it holds {}, which is no part of a recording",
                escape::line(name.as_os_str().as_bytes())
            )));
        };
        let to = folder.join(to);
        if let Some(parent) = to.parent() {
            DirBuilder::new()
                .mode(0o700)
                .recursive(true)
                .create(parent)?;
        }
        // A name that comes twice is refused, and no link can be there.
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&to)?;
        std::io::copy(&mut entry, &mut file)?;
    }
    // Its checksum comes last.
    let behind = std::io::copy(
        &mut archive.into_inner().take(left.saturating_add(1)),
        &mut std::io::sink(),
    )?;
    if behind > left {
        return Err(too_much(most));
    }
    Ok(())
}

fn too_much(most: u64) -> std::io::Error {
    std::io::Error::other(format!(
        "unpacked it is larger than {}, which is unusual; relive unpack --any-size unpacks it",
        size(most)
    ))
}

/// The path in a recording's folder for a name: its first part is the recording's own.
fn inside(name: &Path) -> Option<PathBuf> {
    let mut parts = Vec::new();
    for component in name.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            _ => return None,
        }
    }
    let first = parts.get(1)?;
    PARTS
        .iter()
        .any(|part| first == part)
        .then(|| parts[1..].iter().collect())
}

/// Whether it is a whole recording.
fn check(folder: &Path) -> Result<(), Failure> {
    let trace = Trace::open(folder).map_err(Failure::setup)?;
    trace.verify_files().map_err(Failure::setup)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_are_refused() {
        for name in [
            "bank-0/../x",
            "/bank-0/tapes",
            "bank-0",
            "bank-0/other",
            "../manifest.json",
            "",
        ] {
            assert_eq!(inside(Path::new(name)), None, "{name}");
        }
        assert_eq!(
            inside(Path::new("bank-0/files/ab")),
            Some(PathBuf::from("files/ab"))
        );
    }

    #[test]
    fn the_program_is_in_the_name() {
        for (file, expected) in [
            ("/x/bank-12.tar.zst", "bank"),
            ("bank.tar.zst", "bank"),
            ("bank-1", "bank"),
        ] {
            assert_eq!(program(Path::new(file)), expected, "{file}");
        }
    }
}
