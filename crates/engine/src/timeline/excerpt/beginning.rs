//! The processes with which an excerpt begins, as their images describe them, for commands that read tapes:
//! the events that tell so much of a whole recording are not there. Must never replay anything.

use relive_trace::{FileId, ImageReader, ImageSet, Trace};

use crate::failure::Result;
use crate::session_state::{ImageResult, SessionState};

/// A process with which an excerpt begins.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// Its index in the recording.
    pub process: u32,
    /// The path of its program.
    pub program: Vec<u8>,
    /// Its threads: index and kernel id.
    pub threads: Vec<(u32, u32)>,
    /// The files that it has mapped for itself: path and copy.
    pub files: Vec<(Vec<u8>, FileId)>,
}

/// The process of that index, if a trace is an excerpt that begins with it.
///
/// # Errors
/// Its image is damaged.
pub fn beginning(trace: &Trace, process: u32) -> Result<Option<Beginning>> {
    let excerpt = trace.manifest().excerpt.as_ref();
    let Some(begins) = excerpt.and_then(|excerpt| excerpt.process(process)) else {
        return Ok(None);
    };
    let state = state(trace, process, begins.work).map_err(|e| e.failure(ImageSet::Begin))?;
    let mapped = state.memory.space.regions.iter();
    let mut files: Vec<(Vec<u8>, FileId)> = mapped
        .filter_map(|region| Some((region.name.as_bytes().to_vec(), region.copy?)))
        .collect();
    files.sort_unstable();
    files.dedup();
    let threads = state.threads.iter().filter(|thread| thread.tape.is_some());
    Ok(Some(Beginning {
        process,
        program: state.process.state.exe.clone(),
        threads: threads.map(|t| (t.task.index, t.task.tid)).collect(),
        files,
    }))
}

fn state(trace: &Trace, process: u32, work: u64) -> ImageResult<SessionState> {
    let image = ImageReader::open(trace.directory(), ImageSet::Begin, process, work)?;
    SessionState::of(&image)
}
