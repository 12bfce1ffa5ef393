//! A recording of requests, read whole, with the names behind its numbers.

use std::collections::HashMap;
use std::path::Path;

use relive_engine::Failure;
use relive_rpc::tape::{End, SUFFIX};
use relive_rpc::{Content, Member, Name, NameId, Named, Names, Path as Way, RequestId, Tape};

/// All tapes of a folder.
pub struct Recording {
    pub tapes: Vec<Tape>,
    names: HashMap<NameId, Name>,
}

impl Names for Recording {
    fn name(&self, id: NameId) -> Option<&Name> {
        self.names.get(&id)
    }
}

impl Recording {
    /// Reads a folder.
    ///
    /// # Errors
    /// It has no tapes, or one of them is none.
    pub fn open(dir: &Path) -> Result<Self, Failure> {
        let tapes = relive_rpc::read_all(dir).map_err(|error| Failure::setup(chain(&error)))?;
        if tapes.is_empty() {
            let dir = dir.display();
            return Err(Failure::setup(format!(
                "{dir} has no tapes of relive-rpc: RELIVE_RPC=record:{dir} makes them"
            )));
        }
        let names = tapes.iter().flat_map(Tape::names);
        let names = names.map(|name| (name.id(), name.clone())).collect();
        Ok(Self { tapes, names })
    }

    /// A request, with names.
    pub fn request(&self, id: RequestId) -> String {
        Named(id, self).to_string()
    }

    /// A name, or its number where no tape tells it.
    pub fn named(&self, id: NameId) -> String {
        Named(id, self).to_string()
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text += &format!(": {inner}");
        cause = inner.source();
    }
    text
}

/// The size of a process's tape.
pub fn size(dir: &Path, process: &Name) -> u64 {
    let metadata = std::fs::metadata(dir.join(format!("{process}{SUFFIX}")));
    metadata.map_or(0, |metadata| metadata.len())
}

/// How a tape ends.
pub fn end(end: &End) -> String {
    match end {
        End::Closed => "closed".to_owned(),
        End::Cut(at, why) => format!("cut at byte {at}: {why}"),
    }
}

/// A content's hash.
pub fn hash(content: Content) -> String {
    format!("{:016x}", content.0)
}

/// A task of a lane, without the lane: its place and its way.
pub fn member(task: &Member) -> String {
    let steps = |way: &Way| -> String {
        let folded = match way.folded() {
            0 => String::new(),
            folded => format!(".({folded:x})"),
        };
        let steps = way.steps().iter().map(|step| format!(".{step}"));
        folded + &steps.collect::<String>()
    };
    format!("#{}{}", task.place, steps(&task.path))
}
