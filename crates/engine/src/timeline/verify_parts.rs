//! Verifying a recording in parts that replay at the same time. Must never count what has not been compared.

use relive_trace::Trace;

use super::at_once::{Results, in_order};
use super::parts::{PartEnd, ReplayParts};
use super::replay_process::{Interrupter, Uninterrupted};
use crate::failure::{Failure, Result};
use crate::guide::point::Point;
use crate::guide::protocol::{RunRequest, StopReason, StopSet};
use crate::supervisor::SMALL_FRAGMENTS;

/// A recording that was verified in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartsVerified {
    /// Events compared with the recording.
    pub events: u64,
    /// Memory checksums compared.
    pub checksums: u64,
    /// ReplayParts.
    pub parts: u64,
    /// ReplayParts at a time.
    pub jobs: u64,
}

/// One replay of a part: checksums of memory and registers on the way, and the end.
#[derive(Debug, PartialEq, Eq)]
struct PartReplay {
    sums: Vec<(Point, u64)>,
    end: PartEnd,
    /// Events compared with the recording.
    events: u64,
}

/// Replays each part of a recording twice, with large and with small fragments, up to `jobs` at a time, with a checksum of
/// memory every `every` events. `None`: it cannot be replayed in parts. `tell` is told how many of how many replays are done.
///
/// # Errors
/// Divergence from the recording, between two replays, or between a part's end and the image that the next one begins with.
pub fn verify_in_parts(
    trace: &Trace,
    jobs: usize,
    every: u64,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Option<PartsVerified>> {
    let Some(parts) = ReplayParts::of(trace, jobs)? else {
        return Ok(None);
    };
    let work = |piece: usize, results: &mut Results<'_, PartReplay>| {
        let small = (piece % 2 == 1).then_some(SMALL_FRAGMENTS);
        if let Some(replayed) = replay_part(&parts, piece / 2, small, every, results)? {
            results.put(replayed);
        }
        Ok(())
    };
    let pieces = 2 * parts.count();
    let (mut large, mut last) = (None, None);
    let (mut events, mut checksums) = (0, 0);
    let mut take = |piece: usize, replayed: PartReplay| {
        tell(piece as u64, pieces as u64);
        match (piece % 2, large.take()) {
            (0, _) => large = Some(replayed),
            (_, Some(large)) => {
                compare(&large, &replayed)?;
                events += replayed.events;
                checksums += replayed.sums.len() as u64 + 1;
                last = replayed.end.ended;
            }
            (_, None) => return Err(Failure::internal("a part was replayed once only")),
        }
        Ok(true)
    };
    in_order(pieces, parts.jobs, &work, &mut Uninterrupted, &mut take)?;
    if last.is_none() {
        return Err(Failure::internal("the last part has no end"));
    }
    Ok(Some(PartsVerified {
        events,
        checksums,
        parts: parts.count() as u64,
        jobs: parts.jobs as u64,
    }))
}

/// `None`: nobody wants the result any more.
fn replay_part(
    parts: &ReplayParts<'_>,
    part: usize,
    fragment_insns: Option<u32>,
    every: u64,
    wanted: &mut dyn Interrupter,
) -> Result<Option<PartReplay>> {
    let (mut host, mut status) = parts.begin(part, fragment_insns)?;
    let mut sums = Vec::new();
    loop {
        let next = (status.point.event / every + 1).saturating_mul(every);
        if parts.end(part).is_some_and(|end| next > end.event) {
            break;
        }
        let run = RunRequest {
            until: Some(Point::behind_event(next)),
            ..RunRequest::to_the_end()
        };
        let ran = host.run(&run, &StopSet::default(), wanted)?;
        status = ran.status;
        match ran.why {
            StopReason::Until => sums.push((status.point, host.checksum()?)),
            StopReason::Interrupted => return Ok(None),
            // The end is compared below.
            _ => break,
        }
    }
    let end = parts.go(part, &mut host, &RunRequest::to_the_end(), wanted)?;
    let events = host.compared()?;
    Ok(end.map(|end| PartReplay { sums, end, events }))
}

/// Compares two replays of a part.
fn compare(large: &PartReplay, small: &PartReplay) -> Result<()> {
    let differ = |large: String, small: String| {
        Failure::divergence(format!(
            "memory or registers differ between two replays\n  with large fragments: {large}\n  with small fragments: {small}"
        ))
    };
    let shown = |sum: Option<&(Point, u64)>| match sum {
        None => "(no more)".to_owned(),
        Some((point, sum)) => format!("{point}, checksum {sum:016x}"),
    };
    for n in 0..large.sums.len().max(small.sums.len()) {
        let (a, b) = (large.sums.get(n), small.sums.get(n));
        if a != b {
            return Err(differ(shown(a), shown(b)));
        }
    }
    let end = |replayed: &PartReplay| format!("{:?}, {} events", replayed.end, replayed.events);
    match (large.end, large.events) == (small.end, small.events) {
        true => Ok(()),
        false => Err(differ(end(large), end(small))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_between_two_replays_is_told() {
        let replayed = |sums: &[(u64, u64)], checksum| PartReplay {
            sums: sums
                .iter()
                .map(|(event, sum)| (Point::behind_event(*event), *sum))
                .collect(),
            end: PartEnd {
                point: Point::behind_event(9),
                ended: None,
                checksum,
            },
            events: 9,
        };
        let one = replayed(&[(4, 1), (8, 2)], 3);
        assert!(compare(&one, &replayed(&[(4, 1), (8, 2)], 3)).is_ok());
        for (other, at) in [
            (replayed(&[(4, 1), (8, 7)], 3), "0000000000000007"),
            (replayed(&[(4, 1)], 3), "no more"),
            (replayed(&[(4, 1), (8, 2)], 4), "checksum: 4"),
        ] {
            let told = compare(&one, &other).unwrap_err().text().to_owned();
            assert!(told.contains(at), "{told}");
        }
    }
}
