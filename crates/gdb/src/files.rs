//! The files that a recorded process had mapped, by their recorded paths: their copies in the
//! trace. A client reads these and no others.

use std::collections::HashMap;
use std::fs::File;

use relive_engine::Failure;
use relive_engine::timeline::beginning;
use relive_trace::{FileId, Image, Kind, MapKind, TapeId, Trace};

fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'/').next().unwrap_or(path)
}

/// Bytes of the copy's name and of its identity before the path, in the data of an mmap event.
const MMAP_HEADER: usize = 40;

/// The call that mapped a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// exec(2): the program, or its interpreter.
    Exec,
    /// mmap(2).
    Map,
}

/// Reports each file that a process mapped: its recorded path, its copy in the trace, and how.
///
/// # Errors
/// The trace is damaged.
pub fn mapped(
    trace: &Trace,
    process: u32,
    tell: &mut dyn FnMut(Vec<u8>, FileId, How),
) -> Result<(), Failure> {
    if let Some(begins) = beginning(trace, process)? {
        for (path, file) in begins.files {
            let how = match path == begins.program {
                true => How::Exec,
                false => How::Map,
            };
            tell(path, file, how);
        }
    }
    let all = trace.tapes().iter().map(|t| t.id);
    let ids: Vec<TapeId> = all
        .filter(|id| id.process == process && !id.is_schedule())
        .collect();
    for id in ids {
        let mut tape = trace.tape(id).map_err(Failure::setup)?;
        while let Some(event) = tape.next().map_err(Failure::setup)? {
            match event.kind {
                Kind::Exec(bytes) => {
                    let image = Image::decode(bytes).map_err(Failure::setup)?;
                    for map in &image.maps {
                        if let MapKind::File { file, .. } = map.kind {
                            tell(map.name.clone().into_bytes(), file, How::Exec);
                        }
                    }
                }
                // A part of a file, which begins with zeros, is no program.
                Kind::Syscall(s)
                    if i64::from(s.nr) == libc::SYS_mmap
                        && s.extra.len() > MMAP_HEADER
                        && !s.extra.starts_with(&[0; 32]) =>
                {
                    let mut name = [0; 32];
                    name.copy_from_slice(&s.extra[..32]);
                    tell(s.extra[MMAP_HEADER..].to_vec(), FileId(name), How::Map);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// A file that a client has open.
pub enum Open {
    /// A copy in the trace.
    Copy(File),
    /// Text generated when it was opened.
    Text(Vec<u8>),
}

/// All files, by path.
pub struct Files {
    trace: Trace,
    by_path: HashMap<Vec<u8>, FileId>,
}

impl Files {
    /// Of these processes, of which the last one is debugged.
    ///
    /// # Errors
    /// The trace is damaged.
    pub fn of(trace: Trace, processes: &[u32]) -> Result<Self, Failure> {
        let mut files = Self {
            trace,
            by_path: HashMap::new(),
        };
        for &process in processes {
            files.collect(process)?;
        }
        Ok(files)
    }

    fn collect(&mut self, process: u32) -> Result<(), Failure> {
        let by_path = &mut self.by_path;
        mapped(&self.trace, process, &mut |path, file, how| match how {
            How::Exec => drop(by_path.insert(path, file)),
            How::Map => drop(by_path.entry(path).or_insert(file)),
        })
    }

    /// The copy of a file. Programs name libraries by links (`libz.so.1`), the trace by their
    /// targets (`/usr/lib/libz.so.1.2.13`): if no file has the very path, one matches whose own
    /// name is the same, or continues with a version.
    pub fn open(&self, path: &[u8]) -> Option<File> {
        let id = self.by_path.get(path).or_else(|| {
            let wanted = last_part(path);
            let same = |found: &&[u8]| last_part(found) == wanted;
            let longer = |found: &&[u8]| {
                let rest = last_part(found).strip_prefix(wanted);
                rest.is_some_and(|rest| rest.starts_with(b"."))
            };
            let keys = || self.by_path.keys().map(Vec::as_slice);
            let key = keys()
                .filter(same)
                .min()
                .or_else(|| keys().filter(longer).min())?;
            self.by_path.get(key)
        })?;
        self.trace.file(*id).ok()
    }

    /// All paths.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.by_path.keys().map(Vec::as_slice)
    }
}
