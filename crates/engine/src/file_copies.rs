//! The copies of files that events and images name. Must never miss one: a replay could not
//! go on.

use std::collections::BTreeSet;

use relive_trace::{Event, FileId, Image, KeptPart, Kind, MapKind, Syscall};

use crate::failure::{Failure, Result};
use crate::kernel::shown;
use crate::memory::content::{ContentName, KeptContent};
use crate::session_state::SessionState;

/// Adds the copies that an event names.
pub fn of_event(event: &Event<'_>, files: &mut BTreeSet<FileId>) -> Result<()> {
    match &event.kind {
        Kind::Exec(image) => {
            let image = Image::decode(image).map_err(Failure::setup)?;
            let file = |kind: &MapKind| match kind {
                MapKind::File { file, .. } => Some(*file),
                MapKind::Anon => None,
            };
            files.extend(image.maps.iter().filter_map(|map| file(&map.kind)));
        }
        Kind::Syscall(call) => files.extend(of_call(call)?),
        _ => {}
    }
    Ok(())
}

fn of_call(call: &Syscall<'_>) -> Result<Option<FileId>> {
    let copy = |shown: KeptContent| match shown {
        KeptContent::Whole(id) | KeptContent::Part(KeptPart::Copy(id)) => Some(id),
        KeptContent::Part(KeptPart::Inline(_)) => None,
    };
    match i64::from(call.nr) {
        libc::SYS_mmap | libc::SYS_shmat => {
            let named = ContentName::of(call.extra)?;
            Ok(named
                .and_then(|named| named.shown().ok().cloned())
                .and_then(copy))
        }
        libc::SYS_mremap => Ok(shown::grown(call.extra)?.and_then(copy)),
        _ => Ok(None),
    }
}

/// Adds the copies that private maps of a process show.
pub fn of_state(state: &SessionState, files: &mut BTreeSet<FileId>) {
    files.extend(state.memory.space.regions.iter().filter_map(|r| r.copy));
}
