//! Locations and names of recordings.
//!
//! Recordings without a name of their own are `<program>-<n>` in one folder, with a link
//! `latest` to the newest.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::manifest::{Manifest, manifest_file};

/// Name of the link to the newest recording.
const LATEST: &str = "latest";

/// Longest part of a program's name that goes into a recording's.
const PROGRAM_MAX: usize = 64;

/// The folder for recordings: `$RELIVE_TRACE_DIR`, else `relive` in `$XDG_DATA_HOME`, else
/// `~/.local/share/relive`.
///
/// # Errors
/// [`Error::NoHome`] when none of these is set.
pub fn default_dir() -> Result<PathBuf> {
    folder_from(|name| std::env::var_os(name))
}

fn folder_from(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(folder) = set("RELIVE_TRACE_DIR") {
        return Ok(folder.into());
    }
    // XDG base directory specification: a relative path is invalid and to be ignored.
    let data = set("XDG_DATA_HOME").map(PathBuf::from);
    if let Some(data) = data.filter(|path| path.is_absolute()) {
        return Ok(data.join("relive"));
    }
    let home = set("HOME").ok_or(Error::NoHome)?;
    Ok(PathBuf::from(home).join(".local/share/relive"))
}

/// Makes a new, empty folder `<program>-<n>` in `base`, which is made as well if needed.
/// `program` may be a path, of which the last part counts.
///
/// # Errors
/// When `base` cannot be made or written.
pub fn new_numbered(base: &Path, program: &OsStr) -> Result<PathBuf> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(base)
        .map_err(|error| Error::write(base, error))?;
    let stem = stem(program);
    let mut number = next_number(base, &stem).map_err(|error| Error::write(base, error))?;
    loop {
        let path = base.join(format!("{stem}-{number}"));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            // Another recording began at the same moment and was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(Error::write(&path, error)),
        }
    }
}

/// The last part of a path in characters that need no quoting anywhere.
fn stem(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or(program);
    let stem: String = name
        .to_string_lossy()
        .chars()
        .take(PROGRAM_MAX)
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '+' | '-' => c,
            _ => '_',
        })
        .collect();
    match stem.as_bytes().first() {
        None => "program".to_owned(),
        Some(b'.' | b'-') => format!("_{stem}"),
        Some(_) => stem,
    }
}

/// One more than the highest number in use: numbers of deleted recordings in between are
/// not used again, so that a higher number is always a later recording.
fn next_number(base: &Path, stem: &str) -> io::Result<u64> {
    let mut next = 0;
    for entry in std::fs::read_dir(base)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(stem)?.strip_prefix('-'))
            .and_then(|digits| digits.parse::<u64>().ok());
        next = next.max(number.map_or(0, |number| number.saturating_add(1)));
    }
    Ok(next)
}

/// Makes `latest` in `base` lead to the recording `directory`, replacing it as a whole.
///
/// # Errors
/// When `base` cannot be written.
pub fn set_latest(base: &Path, directory: &Path) -> Result<()> {
    let link = base.join(LATEST);
    let temporary = base.join(format!(".{LATEST}-{}", std::process::id()));
    // A relative link survives when the folder as a whole is moved.
    let target = directory.strip_prefix(base).unwrap_or(directory);
    let _ = std::fs::remove_file(&temporary);
    symlink(target, &temporary)
        .and_then(|()| std::fs::rename(&temporary, &link))
        .map_err(|error| {
            let _ = std::fs::remove_file(&temporary);
            Error::write(&link, error)
        })
}

/// Finds a recording: the latest for `None`; a bare name in [`default_dir`], then in the
/// working directory; any other path as it is.
///
/// # Errors
/// When there is none.
pub fn resolve(name: Option<&Path>) -> Result<PathBuf> {
    let base = match (default_dir(), name) {
        (Ok(base), _) => base,
        // A path that exists needs no folder for recordings.
        (Err(_), Some(path)) if is_trace(path) => return Ok(path.to_owned()),
        (Err(error), _) => return Err(error),
    };
    resolve_in(&base, name)
}

/// Why there is no latest recording in `base`.
fn no_latest(base: &Path) -> Error {
    let there = match std::fs::read_dir(base) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Error::read(base, error);
        }
        there => there.into_iter().flatten().flatten(),
    };
    let base = base.to_owned();
    match there.map(|entry| entry.path()).any(|path| is_trace(&path)) {
        true => Error::Unmarked { base },
        false => Error::NoLatest { base },
    }
}

/// As [`resolve`], for the recordings of `base`.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_in(base: &Path, name: Option<&Path>) -> Result<PathBuf> {
    let Some(name) = name else {
        // The link is resolved once, so that a new recording cannot change the result.
        return std::fs::canonicalize(base.join(LATEST))
            .ok()
            .filter(|path| is_trace(path))
            .ok_or_else(|| no_latest(base));
    };
    let mut components = name.components();
    let bare = matches!(
        (components.next(), components.next()),
        (Some(Component::Normal(part)), None) if part == name.as_os_str()
    );
    let in_base = bare.then(|| base.join(name));
    in_base
        .into_iter()
        .chain([name.to_owned()])
        .find(|path| is_trace(path))
        .ok_or_else(|| {
            let there = std::fs::metadata(manifest_file(name));
            if let Err(error) = there
                && error.kind() == io::ErrorKind::PermissionDenied
            {
                return Error::read(name, error);
            }
            if name.is_dir() {
                return Error::NotATrace {
                    path: name.to_owned(),
                };
            }
            Error::NotFound {
                name: name.to_owned(),
                base: base.to_owned(),
            }
        })
}

fn is_trace(path: &Path) -> bool {
    manifest_file(path).is_file()
}

/// A recording in a folder of recordings.
#[derive(Debug)]
pub struct Listed {
    /// Name in the folder.
    pub name: OsString,
    /// Path of the trace.
    pub path: PathBuf,
    /// Its manifest, or the reason why that cannot be read.
    pub manifest: Result<Manifest>,
}

/// All recordings in `base`, oldest first, unreadable ones last; none if there is no `base`.
///
/// # Errors
/// When `base` cannot be read.
pub fn list(base: &Path) -> Result<Vec<Listed>> {
    let failed = |error| Error::read(base, error);
    let entries = match std::fs::read_dir(base) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut listed = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        // Not through links: `latest` is listed under its own name already.
        if entry.file_type().map_err(failed)?.is_dir() && is_trace(&path) {
            listed.push(Listed {
                name: entry.file_name(),
                manifest: Manifest::read(&path),
                path,
            });
        }
    }
    listed.sort_by(|a, b| {
        let key = |entry: &Listed| entry.manifest.as_ref().map_or(u64::MAX, |m| m.created);
        (key(a), &a.name).cmp(&(key(b), &b.name))
    });
    Ok(listed)
}
