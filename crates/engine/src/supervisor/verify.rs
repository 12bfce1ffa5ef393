//! Verifying a trace: it is replayed twice, with large and with small fragments. Registers
//! are compared with the recording at every event of both; memory is summed at intervals
//! and compared between the two.

use std::collections::BTreeSet;
use std::path::Path;

use relive_trace::TapeId;

use super::replay::{ReplayOptions, replay};
use super::status::EndStatus;
use crate::broker::{Gathered, Sum};
use crate::failure::{Failure, Result};
use crate::modes::replay::checksum::ChecksumInterval;
use crate::stats::Totals;

/// Fragment size of the second replay: small, and no divisor of the usual sizes.
pub const SMALL_FRAGMENTS: u32 = 3;

/// A verified trace.
#[derive(Debug, Clone)]
pub struct Verified {
    /// Events compared with the recording, in all processes.
    pub events: u64,
    /// Memory checksums compared.
    pub checksums: u64,
    /// How the first process ended.
    pub status: EndStatus,
    /// The counters of both replays together, if they were asked for.
    pub totals: Option<Totals>,
}

/// Verifies a trace, with checksums of memory in this interval of each process, and
/// counts if `count` is set.
///
/// # Errors
/// Divergence from the recording or between the two replays; a failure of a replay.
pub fn verify(trace: &Path, interval: ChecksumInterval, count: bool) -> Result<Verified> {
    let run = |fragment_insns: Option<u32>| {
        replay(&ReplayOptions {
            quiet: true,
            checksums: Some(interval),
            fragment_insns,
            count,
            ..ReplayOptions::of(trace)
        })
    };
    let first = run(None)?;
    let second = run(Some(SMALL_FRAGMENTS))?;
    if first.status != second.status || first.events != second.events {
        return Err(Failure::divergence(format!(
            "two replays of the same trace differ:\n  with large fragments: {:?}, {} events\n  with small fragments: {:?}, {} events",
            first.status, first.events, second.status, second.events
        )));
    }
    let checksums = compare(&first.gathered, &second.gathered)?;
    Ok(Verified {
        events: first.events,
        checksums,
        status: first.status,
        totals: first.totals.zip(second.totals).map(|(a, b)| a.and(&b)),
    })
}

/// How many checksums there are; they must be the same in both.
fn compare(large: &Gathered, small: &Gathered) -> Result<u64> {
    let processes: BTreeSet<u32> = large
        .sums
        .keys()
        .chain(small.sums.keys())
        .copied()
        .collect();
    let mut count = 0;
    for process in processes {
        let of = |g: &Gathered| g.sums.get(&process).cloned().unwrap_or_default();
        let (a, b) = (of(large), of(small));
        let differs = (0..a.len().max(b.len())).find(|&i| a.get(i) != b.get(i));
        if let Some(i) = differs {
            return Err(Failure::divergence(format!(
                "memory differs between two replays of process {process}\n  with large fragments: {}\n  with small fragments: {}",
                show(a.get(i)),
                show(b.get(i))
            )));
        }
        count += a.len() as u64;
    }
    Ok(count)
}

fn show(sum: Option<&Sum>) -> String {
    match sum {
        None => "(no more)".to_owned(),
        Some(s) => format!(
            "event {} thread {} tick {} memory {:016x}",
            s.event,
            TapeId::new(s.process, s.thread),
            s.tick,
            s.memory
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(sums: &[(u32, u64)]) -> Gathered {
        let mut all = Gathered::default();
        for &(process, memory) in sums {
            let sum = Sum {
                process,
                thread: 0,
                event: 500,
                tick: 7,
                memory,
            };
            all.sums.entry(process).or_default().push(sum);
        }
        all
    }

    #[test]
    fn a_difference_in_any_process_is_told() {
        let both = gathered(&[(0, 1), (1, 2), (0, 3)]);
        assert_eq!(compare(&both, &both).expect("they are the same"), 3);
        for (other, at) in [
            (gathered(&[(0, 1), (1, 2), (0, 4)]), "process 0"),
            (gathered(&[(0, 1), (0, 3)]), "process 1"),
            (gathered(&[(0, 1), (1, 2), (0, 3), (5, 6)]), "process 5"),
        ] {
            let said = compare(&both, &other).expect_err("they differ").to_string();
            assert!(said.contains(at), "{said}");
            assert!(compare(&other, &both).is_err());
        }
    }
}
