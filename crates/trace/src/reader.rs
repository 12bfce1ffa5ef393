//! Opening a trace: the manifest and an index of all chunks.
//!
//! Opening reads only chunk headers; payloads are checked when a tape is read. A torn chunk
//! at the end is the mark of a crash and is reported, anything else that does not hold
//! together is an error.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::chunk::{HEADER_LEN, Header};
use crate::error::{Error, Result};
use crate::event::TapeId;
use crate::excerpt::Excerpt;
use crate::file_id::FileId;
use crate::files::{FileStore, open_regular};
use crate::input::Input;
use crate::manifest::Manifest;
use crate::tape::{TapeMark, TapeReader};
use crate::tapes::{Chunk, Tapes};
use crate::writer::TAPES;

/// A trace opened for reading.
#[derive(Debug, Clone)]
pub struct Trace {
    directory: PathBuf,
    manifest: Manifest,
    files: FileStore,
    input: Input,
    tapes: Arc<Tapes>,
    infos: Vec<TapeInfo>,
    index: BTreeMap<TapeId, Arc<[Chunk]>>,
    /// Of an excerpt, where the tapes go on that were there before.
    bases: BTreeMap<TapeId, TapeMark>,
    truncated: bool,
    /// The tapes are those that a replay of a sketch has written.
    exact: bool,
    /// They begin later than those of the recording.
    in_part: bool,
}

/// Whether the tapes in a folder are as long as they were when the recording ended.
fn has_all_tapes(directory: &Path, manifest: &Manifest) -> Result<bool> {
    let path = directory.join(TAPES);
    let about = path.metadata().map_err(|error| Error::read(&path, error))?;
    Ok(manifest
        .tapes_length
        .is_none_or(|recorded| about.len() >= recorded))
}

/// Folder in a sketch for its exact tapes, once a replay has found the turns of its threads.
pub fn exact_folder(trace: &Path) -> PathBuf {
    trace.join("exact")
}

/// Size of one tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapeInfo {
    /// The tape.
    pub id: TapeId,
    /// Number of chunks.
    pub chunks: u64,
    /// Bytes of events.
    pub raw_bytes: u64,
    /// Bytes in the tapes file, headers included.
    pub stored_bytes: u64,
}

impl Trace {
    /// Opens the trace in `directory`.
    ///
    /// # Errors
    /// When it is no trace, of another major version, or damaged other than at its end.
    pub fn open(directory: &Path) -> Result<Self> {
        let manifest = Manifest::read(directory)?;
        let exact = exact_folder(directory);
        if !manifest.recorder.is_serial()
            && let Ok(found) = Manifest::read(&exact)
            && found.complete
        {
            // They are whole, but where the recording was cut off they go no further.
            let whole = manifest.complete && has_all_tapes(directory, &manifest)?;
            let (input_length, begins) = (manifest.input_length, manifest.excerpt.is_none());
            let manifest = Manifest {
                input_length,
                ..found
            };
            let mut trace = Self::open_tapes(directory, &exact, manifest)?;
            trace.manifest.complete = whole;
            return Ok(Self {
                exact: true,
                in_part: begins && trace.manifest.excerpt.is_some(),
                ..trace
            });
        }
        Self::open_tapes(directory, directory, manifest)
    }

    /// Opens the tapes of the recording itself, even if a replay of a sketch has written exact ones.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn open_recorded(directory: &Path) -> Result<Self> {
        Self::open_tapes(directory, directory, Manifest::read(directory)?)
    }

    /// The trace in `directory`, with the tapes of a folder and the manifest that belongs to them.
    fn open_tapes(directory: &Path, tapes: &Path, manifest: Manifest) -> Result<Self> {
        let path = tapes.join(TAPES);
        let file = open_regular(&path)?;
        let mut scan = Scan::default();
        let length = scan.go_on(&file, &path)?;
        let bases = manifest
            .excerpt
            .as_ref()
            .map_or_else(BTreeMap::new, Excerpt::bases);
        for id in bases.keys() {
            // A thread may sleep all the time.
            scan.index.entry(*id).or_default();
        }
        let mut truncated = scan.torn;
        if let Some(recorded) = manifest.tapes_length {
            if length > recorded {
                return Err(Error::Chunk {
                    path,
                    offset: recorded,
                    what: "bytes after the end of a complete recording",
                });
            }
            truncated |= length < recorded;
        }
        let excerpt = manifest.excerpt.as_ref();
        let base = excerpt.map_or(0, |excerpt| excerpt.input);
        let (input, torn) = Input::open(directory, base, manifest.input_length)?;
        truncated |= torn;
        let infos = scan.index.iter().map(|(id, chunks)| info(*id, chunks));
        Ok(Self {
            infos: infos.collect(),
            index: scan
                .index
                .into_iter()
                .map(|(id, chunks)| (id, chunks.into()))
                .collect(),
            directory: directory.to_owned(),
            files: FileStore::new(directory),
            input,
            tapes: Arc::new(Tapes {
                file,
                path,
                whole: manifest.complete && !truncated,
            }),
            manifest,
            bases,
            truncated,
            exact: false,
            in_part: false,
        })
    }

    /// Whether replays need nothing else than the tapes: threads ran one at a time, or their turns have been
    /// found.
    pub fn is_exact(&self) -> bool {
        self.exact || self.manifest.recorder.is_serial()
    }

    /// Whether the tapes are those that a replay has written which has found the turns of threads.
    pub fn has_found_turns(&self) -> bool {
        self.exact
    }

    /// Whether the turns of threads have been found of the last part of the recording alone.
    pub fn is_found_in_part(&self) -> bool {
        self.in_part
    }

    /// The trace's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether the end is missing: the recorder died while writing, or the file was cut.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Whether the tapes end where they were cut, and not with the program.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        let manifest = &self.manifest;
        let has_end = manifest.complete && manifest.summary.is_some();
        self.truncated || !has_end || manifest.excerpt.as_ref().is_some_and(|e| e.cut)
    }

    /// All tapes, in order.
    pub fn tapes(&self) -> &[TapeInfo] {
        &self.infos
    }

    /// Whether a process was over before the recording begins, which then is an excerpt: nothing of it is there.
    #[must_use]
    pub fn begins_behind(&self, process: u32) -> bool {
        let own = TapeId::new(process, 0)..=TapeId::schedule(process);
        self.manifest.excerpt.is_some() && self.index.range(own).next().is_none()
    }

    /// A reader at the beginning of a tape.
    ///
    /// # Errors
    /// [`Error::NoTape`].
    pub fn tape(&self, id: TapeId) -> Result<TapeReader> {
        let chunks = self.index.get(&id).ok_or_else(|| Error::NoTape {
            path: self.directory.clone(),
            tape: id,
        })?;
        let base = self.base(id);
        Ok(TapeReader::new(
            id,
            self.tapes.clone(),
            chunks.clone(),
            &base,
        ))
    }

    /// A reader at a position of a tape, which was noted when another reader stood there.
    ///
    /// # Errors
    /// [`Error::NoTape`]; the tape is shorter, or damaged there.
    pub fn tape_at(&self, id: TapeId, mark: &TapeMark) -> Result<TapeReader> {
        let chunks = self.index.get(&id).ok_or_else(|| Error::NoTape {
            path: self.directory.clone(),
            tape: id,
        })?;
        let base = self.base(id);
        TapeReader::at_mark(id, self.tapes.clone(), chunks.clone(), &base, mark)
    }

    /// The position at which a tape begins: not the first one where an excerpt goes on with it.
    #[must_use]
    pub fn base(&self, id: TapeId) -> TapeMark {
        self.bases.get(&id).copied().unwrap_or_default()
    }

    /// A checksum over all tapes: over the heads of their chunks, which have checksums of the rest.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let mut sum = Xxh3::new();
        for chunk in self.index.values().flat_map(|chunks| chunks.iter()) {
            sum.update(&chunk.header.to_bytes());
        }
        sum.digest()
    }

    /// All chunks in the order in which they were written: the tape of each, and the bytes of events of that
    /// tape up to its end, in the whole recording.
    #[must_use]
    pub fn chunk_ends(&self) -> Vec<(TapeId, u64)> {
        let mut all = Vec::new();
        for (id, chunks) in &self.index {
            let mut end = self.base(*id).offset;
            for chunk in chunks.iter() {
                end += u64::from(chunk.header.raw_len);
                all.push((chunk.offset, *id, end));
            }
        }
        all.sort_unstable();
        all.into_iter().map(|(_, id, end)| (id, end)).collect()
    }

    /// The store of input.
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// The copy of a mapped file, not hashed again.
    ///
    /// # Errors
    /// When the trace has no such file.
    pub fn file(&self, id: FileId) -> Result<File> {
        self.files.open(id)
    }

    /// The copy of a mapped file, its content verified.
    ///
    /// # Errors
    /// When the trace has no such file, or it has another content.
    pub fn verified_file(&self, id: FileId) -> Result<File> {
        self.files.open_verified(id)
    }

    /// Hashes all copies and returns their number; checks the store of input too.
    ///
    /// # Errors
    /// At the first one whose content is not the recorded one.
    pub fn verify_files(&self) -> Result<usize> {
        let ids = self.files.ids()?;
        for id in &ids {
            self.files.open_verified(*id)?;
        }
        self.input.verify()?;
        Ok(ids.len())
    }
}

fn info(id: TapeId, chunks: &[Chunk]) -> TapeInfo {
    let sum = |field: fn(&Header) -> u64| chunks.iter().map(|chunk| field(&chunk.header)).sum();
    TapeInfo {
        id,
        chunks: chunks.len() as u64,
        raw_bytes: sum(|header| header.raw_len.into()),
        stored_bytes: sum(|header| HEADER_LEN as u64 + u64::from(header.stored_len)),
    }
}

/// The heads of the chunks up to an offset.
#[derive(Default)]
pub(crate) struct Scan {
    pub(crate) index: BTreeMap<TapeId, Vec<Chunk>>,
    offset: u64,
    torn: bool,
}

impl Scan {
    /// Reads all further heads, in one pass.
    pub(crate) fn go_on(&mut self, file: &File, path: &Path) -> Result<u64> {
        let length = file.metadata().map_err(|error| Error::read(path, error))?;
        let length = length.len();
        self.torn = false;
        while self.offset < length {
            let offset = self.offset;
            let damaged = |what| Error::Chunk {
                path: path.to_owned(),
                offset,
                what,
            };
            self.torn = true;
            if length - offset < HEADER_LEN as u64 {
                break;
            }
            let mut bytes = [0; HEADER_LEN];
            file.read_exact_at(&mut bytes, offset)
                .map_err(|error| Error::read(path, error))?;
            let header = match Header::from_bytes(&bytes) {
                Ok(header) => header,
                // A crash of the whole machine can leave a length without the data.
                Err(_) if zeros_to_the_end(file, path, offset, length)? => break,
                Err(what) => return Err(damaged(what)),
            };
            let end = offset + HEADER_LEN as u64 + u64::from(header.stored_len);
            if end > length {
                break;
            }
            let chunks = self.index.entry(header.tape).or_default();
            if header.sequence != chunks.len() as u64 {
                return Err(damaged("a chunk is missing before it, or there twice"));
            }
            chunks.push(Chunk { offset, header });
            self.offset = end;
            self.torn = false;
        }
        Ok(length)
    }
}

fn zeros_to_the_end(file: &File, path: &Path, mut offset: u64, length: u64) -> Result<bool> {
    let mut buffer = [0; 64 << 10];
    while offset < length {
        let part = &mut buffer[..(length - offset).min(64 << 10) as usize];
        file.read_exact_at(part, offset)
            .map_err(|error| Error::read(path, error))?;
        if part.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        offset += part.len() as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::CHUNK_RAW_MAX;
    use crate::writer::TraceWriter;

    const TAPE: TapeId = TapeId::new(0, 0);

    /// A trace of one chunk whose checksums are all right, as a forger would make it.
    fn trace_of(raw_len: usize, zstd: bool, payload: &[u8]) -> Result<Trace> {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("trace");
        let manifest = Manifest::new(Vec::new(), "/".into(), Vec::new());
        TraceWriter::create(&directory, &manifest).unwrap();
        let header = Header::new(TAPE, 0, raw_len, zstd, payload);
        let bytes = [&header.to_bytes()[..], payload].concat();
        std::fs::write(directory.join(TAPES), bytes).unwrap();
        Trace::open(&directory)
    }

    /// The bytes that a reader decodes from its chunk.
    fn forged(raw_len: usize, zstd: bool, payload: &[u8]) -> Result<Vec<u8>> {
        let trace = trace_of(raw_len, zstd, payload)?;
        let mut out = b"before".to_vec();
        let read = trace.tapes.read(&trace.index[&TAPE][0], &mut out);
        if read.is_err() {
            assert_eq!(out, b"before");
        }
        read.map(|()| out)
    }

    fn packed(raw: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(raw, 1).unwrap()
    }

    #[test]
    fn the_sum_of_other_tapes_is_another() {
        let sum = |payload: &[u8]| trace_of(payload.len(), false, payload).unwrap().sum();
        assert_eq!(sum(&[7; 100]), sum(&[7; 100]));
        assert_ne!(sum(&[7; 100]), sum(&[[7; 99].as_slice(), &[8]].concat()));
    }

    #[test]
    fn a_forged_chunk_is_an_error() {
        let zeros = vec![0; 1000];
        assert_eq!(
            forged(1000, true, &packed(&zeros)).unwrap(),
            [b"before", &zeros[..]].concat()
        );
        let bomb = packed(&vec![0; 64 << 20]);
        assert!(bomb.len() < CHUNK_RAW_MAX);
        for (raw_len, payload, what) in [
            (999, packed(&zeros), "more than it says"),
            (1001, packed(&zeros), "less than it says"),
            (CHUNK_RAW_MAX, bomb, "a bomb"),
            (1000, vec![0x55; 100], "not compressed at all"),
            (1000, packed(&zeros)[..10].to_vec(), "cut off"),
        ] {
            let error = forged(raw_len, true, &payload).unwrap_err();
            assert!(matches!(error, Error::Chunk { offset: 0, .. }), "{what}");
        }
        for (raw_len, zstd, payload) in [(10, false, &[1; 9][..]), (9, true, &[1; 9])] {
            assert!(forged(raw_len, zstd, payload).is_err());
        }
    }
}
