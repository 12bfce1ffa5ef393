//! `relive rpc ls` and `relive rpc info`.

use std::collections::HashSet;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_rpc::tape::Lane;
use relive_rpc::{LaneKind, Tape};
use serde_json::{Value, json};

use super::recording::{Recording, end, size};
use crate::args::RpcArgs;
use crate::format::{self, number};
use crate::output;

/// Lists processes.
pub fn ls(args: &RpcArgs) -> Result<EndStatus, Failure> {
    let recording = Recording::open(&args.dir)?;
    let sum = |tape: &Tape, of: fn(&Lane) -> usize| tape.lanes.iter().map(of).sum::<usize>();
    output::print(|out| {
        let objects = recording.tapes.iter().map(|tape| {
            json!({
                "process": tape.process.as_str(),
                "bytes": size(&args.dir, &tape.process),
                "lanes": tape.lanes.len(),
                "receipts": sum(tape, |lane| lane.receipts.len()),
                "primitives": sum(tape, |lane| lane.primitives.len()),
                "payloads": tape.lanes.iter().any(|lane| !lane.payloads.is_empty()),
                "end": end(&tape.end),
            })
        });
        if args.json {
            writeln!(out, "{:#}", Value::from(objects.collect::<Vec<_>>()))?;
            return Ok(());
        }
        let heads = ["PROCESS", "SIZE", "LANES", "RECEIPTS", "PRIMITIVES", "END"];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        rows.extend(recording.tapes.iter().map(|tape| {
            vec![
                tape.process.to_string(),
                format::size(size(&args.dir, &tape.process)),
                number(tape.lanes.len() as u64),
                number(sum(tape, |lane| lane.receipts.len()) as u64),
                number(sum(tape, |lane| lane.primitives.len()) as u64),
                end(&tape.end),
            ]
        }));
        Ok(format::table(out, &[1, 2, 3, 4], &rows)?)
    })
}

/// Shows the lanes of all processes.
pub fn info(args: &RpcArgs) -> Result<EndStatus, Failure> {
    let recording = Recording::open(&args.dir)?;
    let lanes = || {
        let tapes = recording.tapes.iter();
        tapes.flat_map(|tape| tape.lanes.iter().map(move |lane| (tape, lane)))
    };
    output::print(|out| {
        if args.json {
            let objects = lanes().map(|(tape, lane)| {
                json!({
                    "process": tape.process.as_str(),
                    "lane": lane.name.as_str(),
                    "kind": lane.kind.as_str(),
                    "receipts": lane.receipts.len(),
                    "senders": senders(lane),
                    "primitives": lane.primitives.len(),
                    "cancelled": lane.cancelled.len(),
                    "payload_bytes": payload(lane),
                })
            });
            writeln!(out, "{:#}", Value::from(objects.collect::<Vec<_>>()))?;
            return Ok(());
        }
        let heads = [
            "PROCESS",
            "LANE",
            "KIND",
            "RECEIPTS",
            "SENDERS",
            "PRIMITIVES",
            "CANCELLED",
            "PAYLOAD",
        ];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        rows.extend(lanes().map(|(tape, lane)| {
            // A root receives nothing.
            let received = |count: usize| match lane.kind {
                LaneKind::Root => "-".to_owned(),
                _ => number(count as u64),
            };
            vec![
                tape.process.to_string(),
                lane.name.to_string(),
                lane.kind.as_str().to_owned(),
                received(lane.receipts.len()),
                received(senders(lane)),
                number(lane.primitives.len() as u64),
                number(lane.cancelled.len() as u64),
                format::size(payload(lane)),
            ]
        }));
        Ok(format::table(out, &[3, 4, 5, 6, 7], &rows)?)
    })
}

/// Different tasks that sent requests.
fn senders(lane: &Lane) -> usize {
    let senders: HashSet<_> = lane
        .receipts
        .iter()
        .map(|receipt| receipt.id.task)
        .collect();
    senders.len()
}

fn payload(lane: &Lane) -> u64 {
    let parts = lane.payloads.values().flatten();
    parts.map(|part| part.len() as u64).sum()
}
