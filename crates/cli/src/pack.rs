//! `relive pack`: one file with a recording and all that is needed to inspect it elsewhere.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_engine::timeline::processes;
use relive_symbols::{Module, sources};
use relive_trace::{FileId, FileStore, Trace, UNFINISHED_INDEX};
use tar::{Builder, HeaderMode};

use crate::args::PackArgs;
use crate::format::{count, size};
use crate::room::Room;
use crate::unfinished::Unfinished;
use crate::unpack::PARTS;
use crate::{names, output, traces};

/// Folder in a trace for source files, under their absolute paths.
pub const SOURCES: &str = "sources";

/// Larger source files are generated ones, and not packed.
const MOST_SOURCE: u64 = 16 << 20;

type Archive<'a> = Builder<&'a mut dyn Write>;

/// Packs a recording.
///
/// # Errors
/// It is damaged, or the file is there already or cannot be written.
pub fn execute(args: &PackArgs) -> Result<EndStatus, Failure> {
    let trace = traces::open(args.trace.trace.as_deref())?;
    let folder = fs::canonicalize(trace.directory()).map_err(Failure::setup)?;
    let name = PathBuf::from(folder.file_name().unwrap_or("recording".as_ref()));
    let path = args.output.clone().unwrap_or_else(|| {
        let mut file = name.clone().into_os_string();
        file.push(".tar.zst");
        file.into()
    });
    let extras = pack(&trace, &path, args.no_sources)?;
    let bytes = fs::metadata(&path).map_err(Failure::setup)?.len();
    output::print(|out| {
        writeln!(
            out,
            "packed {} ({}) into {} ({}), with {} and {}",
            name.display(),
            size(Room::of(&folder).all),
            path.display(),
            size(bytes),
            count(extras.debug, "file") + " of debug information",
            count(extras.sources, "source file"),
        )?;
        Ok(())
    })
}

/// Packs a recording into a new file, with all that is found on this machine.
///
/// # Errors
/// It is damaged, or the file is there already or cannot be written.
pub fn pack(trace: &Trace, path: &Path, no_sources: bool) -> Result<Extras, Failure> {
    trace.verify_files().map_err(Failure::setup)?;
    let folder = fs::canonicalize(trace.directory()).map_err(Failure::setup)?;
    let name = PathBuf::from(folder.file_name().unwrap_or("recording".as_ref()));
    let no = |e: &dyn std::fmt::Display| {
        Failure::setup(format!("{} cannot be written: {e}", path.display()))
    };
    let near = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Private, as recordings are, and whole or not there at all.
    let make = || tempfile::NamedTempFile::new_in(near).map_err(|e| no(&e));
    let (file, _unfinished) = Unfinished::begin(make, |file| file.path())?;
    let level = 3;
    let mut packed = zstd::Encoder::new(BufWriter::new(file), level).map_err(|e| no(&e))?;
    // Of what is in it, debug information and sources have no checksum of their own.
    packed.include_checksum(true).map_err(|e| no(&e))?;
    let extras = {
        let mut archive = Builder::new(&mut packed as &mut dyn Write);
        archive.mode(HeaderMode::Deterministic);
        let extras = fill(&mut archive, trace, &folder, &name, no_sources).map_err(|e| no(&e))?;
        archive.finish().map_err(|e| no(&e))?;
        extras
    };
    let buffered = packed.finish().map_err(|e| no(&e))?;
    let file = buffered.into_inner().map_err(|e| no(&e))?;
    file.persist_noclobber(path).map_err(|e| no(&e.error))?;
    Ok(extras)
}

/// Files found on this machine, by their number.
pub struct Extras {
    debug: u64,
    sources: u64,
}

fn fill(
    archive: &mut Archive<'_>,
    trace: &Trace,
    folder: &Path,
    name: &Path,
    no_sources: bool,
) -> std::io::Result<Extras> {
    let mut there = BTreeSet::new();
    for part in PARTS {
        // A recording need not have all, and may have beside them what a search has noted.
        let (from, to) = (folder.join(part), name.join(part));
        match from.symlink_metadata() {
            Ok(about) if about.is_dir() => add_folder(archive, &from, &to, &mut there)?,
            Ok(about) if about.is_file() => {
                add_file(archive, &from, &to)?;
                there.insert(to);
            }
            _ => {}
        }
    }
    let mut wanted = BTreeSet::new();
    let mut extras = Extras {
        debug: 0,
        sources: 0,
    };
    let finder = Arc::new(names::finder(folder));
    let store = FileStore::new(folder);
    for (name_then, id) in mapped_files(trace)? {
        let path = store.path(id);
        let Ok(bytes) = fs::read(&path) else { continue };
        // A mapped file that is no program has neither names nor sources.
        let Some(module) = Module::load(&bytes, &path, &name_then, &finder) else {
            continue;
        };
        wanted.append(&mut sources(&module));
        for companion in module.companions() {
            // Files that an unpacked recording has brought along go on with it.
            if companion.path.starts_with(folder) || there.contains(&companion.path) {
                continue;
            }
            let places = companion.better.iter().chain([&companion.below]);
            let places = places.filter(|place| !place.as_os_str().is_empty());
            let mut places = places.map(|place| name.join(names::DEBUG).join(place));
            if let Some(to) = places.find(|to| there.insert(to.clone())) {
                add_file(archive, &companion.path, &to)?;
                extras.debug += 1;
            }
            there.insert(companion.path);
        }
    }
    if no_sources {
        return Ok(extras);
    }
    for path in wanted {
        let path = PathBuf::from(path);
        // The source as it is on this machine now; most sources of libraries are not here.
        let Ok(real) = fs::canonicalize(&path) else {
            continue;
        };
        let usable = fs::metadata(&real).is_ok_and(|m| m.is_file() && m.len() <= MOST_SOURCE);
        let Some(below) = usable.then(|| plain(&path)).flatten() else {
            continue;
        };
        let to = name.join(SOURCES).join(below);
        if there.insert(to.clone()) {
            add_file(archive, &real, &to)?;
            extras.sources += 1;
        }
    }
    Ok(extras)
}

/// The copies of mapped files, with their recorded paths, each once.
fn mapped_files(trace: &Trace) -> std::io::Result<BTreeSet<(PathBuf, FileId)>> {
    let mut all = BTreeSet::new();
    for process in processes(trace) {
        relive_gdb::mapped(trace, process, &mut |path, id, _| {
            all.insert((OsString::from_vec(path).into(), id));
        })
        .map_err(|e| std::io::Error::other(e.to_string()))?;
    }
    Ok(all)
}

/// An absolute path without its root, and with plain names only.
fn plain(path: &Path) -> Option<PathBuf> {
    use std::path::Component::{CurDir, Normal, ParentDir, RootDir};
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            RootDir | CurDir => {}
            Normal(name) => plain.push(name),
            ParentDir => {
                plain.pop();
            }
            std::path::Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

fn add_folder(
    archive: &mut Archive<'_>,
    folder: &Path,
    to: &Path,
    there: &mut BTreeSet<PathBuf>,
) -> std::io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_name() == UNFINISHED_INDEX {
            continue;
        }
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            add_folder(archive, &from, &to, there)?;
        } else if kind.is_file() {
            add_file(archive, &from, &to)?;
            there.insert(to);
        }
    }
    Ok(())
}

fn add_file(archive: &mut Archive<'_>, from: &Path, to: &Path) -> std::io::Result<()> {
    archive.append_file(to, &mut File::open(from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below() {
        for (path, expected) in [
            ("/a/b.c", "a/b.c"),
            ("/a/../../b.c", "b.c"),
            ("/a/./x/../b.c", "a/b.c"),
        ] {
            assert_eq!(plain(Path::new(path)), Some(PathBuf::from(expected)));
        }
    }
}
