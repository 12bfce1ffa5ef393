//! Verifying a trace: it is replayed twice, with large and with small fragments. Registers
//! are compared with the recording at every event of both; memory is summed at intervals
//! and compared between the two.

use std::path::Path;

use super::Status;
use super::folder::Folder;
use super::replay::{ReplayOptions, replay};
use crate::failure::{Failure, Result};
use crate::stats::Totals;

/// Fragment size of the second replay: small, and no divisor of the usual sizes.
const SMALL: u32 = 3;

/// A verified trace.
#[derive(Debug, Clone)]
pub struct Verified {
    /// Events compared with the recording, in all processes.
    pub events: u64,
    /// Memory checksums compared.
    pub checksums: u64,
    /// How the first process ended.
    pub status: Status,
    /// What both replays together have counted, if that was asked for.
    pub totals: Option<Totals>,
}

/// Verifies a trace, with a checksum of memory every `every` events of each process, and
/// counts what is done if `count` says so.
///
/// # Errors
/// Divergence from the recording or between the two replays; whatever stops a replay.
pub fn verify(trace: &Path, every: u64, count: bool) -> Result<Verified> {
    let base = Folder::new("verify")?;
    let run = |name: &str, fragment_insns: Option<u32>| {
        let folder = base.path().join(name);
        std::fs::create_dir(&folder)
            .map_err(|e| Failure::setup(format!("cannot make {}: {e}", folder.display())))?;
        let options = ReplayOptions {
            trace,
            quiet: true,
            checksums: Some((every, &folder)),
            fragment_insns,
            count,
            foreign: None,
        };
        replay(&options).map(|r| (r, folder))
    };
    let (first, a) = run("large", None)?;
    let (second, b) = run("small", Some(SMALL))?;
    if first.status != second.status || first.events != second.events {
        return Err(Failure::Divergence(format!(
            "two replays of the same trace differ:\n  with large fragments: {:?}, {} events\n  with small fragments: {:?}, {} events",
            first.status, first.events, second.status, second.events
        )));
    }
    let checksums = compare(&a, &b)?;
    Ok(Verified {
        events: first.events,
        checksums,
        status: first.status,
        totals: first.totals.zip(second.totals).map(|(a, b)| a.and(&b)),
    })
}

fn compare(a: &Path, b: &Path) -> Result<u64> {
    let mut count = 0;
    for entry in std::fs::read_dir(a).map_err(Failure::setup)? {
        let name = entry.map_err(Failure::setup)?.file_name();
        let read = |dir: &Path| std::fs::read_to_string(dir.join(&name)).unwrap_or_default();
        let (x, y) = (read(a), read(b));
        let (mut left, mut right) = (x.lines(), y.lines());
        loop {
            match (left.next(), right.next()) {
                (None, None) => break,
                (l, r) if l == r => count += 1,
                (l, r) => {
                    let (l, r) = (l.unwrap_or("(no more)"), r.unwrap_or("(no more)"));
                    return Err(Failure::Divergence(format!(
                        "memory differs between two replays of process {}\n  with large fragments: {l}\n  with small fragments: {r}",
                        name.to_string_lossy()
                    )));
                }
            }
        }
    }
    Ok(count)
}
