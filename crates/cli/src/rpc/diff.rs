//! `relive rpc diff`: where two recordings part.

use std::collections::BTreeMap;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_rpc::Receipt;
use relive_rpc::tape::Lane;
use serde_json::{Value, json};

use super::recording::{Recording, hash, member};
use crate::args::RpcDiffArgs;
use crate::output;
use crate::query::hex;

/// One difference.
struct Part {
    /// Process, or process and lane.
    at: String,
    /// Where in it.
    place: Option<String>,
    /// In each of the two.
    sides: [String; 2],
}

/// Compares two recordings.
pub fn execute(args: &RpcDiffArgs) -> Result<EndStatus, Failure> {
    let both = [Recording::open(&args.one)?, Recording::open(&args.other)?];
    let parts = compare(&both);
    output::print(|out| {
        if args.json {
            let objects = parts.iter().map(|part| {
                json!({
                    "at": part.at, "place": part.place, "one": part.sides[0], "other": part.sides[1],
                })
            });
            writeln!(out, "{:#}", Value::from(objects.collect::<Vec<_>>()))?;
        } else if parts.is_empty() {
            writeln!(out, "the recordings are equal")?;
        }
        for part in parts.iter().filter(|_| !args.json) {
            let place = part.place.as_deref().unwrap_or_default();
            writeln!(out, "{}{place}", part.at)?;
            writeln!(out, "  one:   {}", part.sides[0])?;
            writeln!(out, "  other: {}", part.sides[1])?;
        }
        Ok(())
    })?;
    Ok(EndStatus::Code(i32::from(!parts.is_empty())))
}

fn compare(both: &[Recording; 2]) -> Vec<Part> {
    // By name, so that the order is the same whichever comes first.
    let mut lanes: BTreeMap<String, [Option<&Lane>; 2]> = BTreeMap::new();
    for (side, recording) in both.iter().enumerate() {
        for tape in &recording.tapes {
            for lane in &tape.lanes {
                let name = format!("{}/{}", tape.process, lane.name);
                lanes.entry(name).or_default()[side] = Some(lane);
            }
        }
    }
    let mut parts = Vec::new();
    for (at, sides) in lanes {
        match sides {
            [Some(one), Some(other)] => {
                parts.extend(receipts(both, &at, one, other));
                parts.extend(primitives(&at, one, other));
            }
            sides => parts.push(Part {
                at,
                place: None,
                sides: sides.map(|side| {
                    let text = side.map_or("not there", |lane| lane.kind.as_str());
                    text.to_owned()
                }),
            }),
        }
    }
    parts
}

fn receipts(both: &[Recording; 2], at: &str, one: &Lane, other: &Lane) -> Option<Part> {
    let most = one.receipts.len().max(other.receipts.len());
    let place = (0..most).find(|&place| one.receipts.get(place) != other.receipts.get(place))?;
    let shown = |recording: &Recording, receipt: Option<&Receipt>| match receipt {
        None => "nothing more".to_owned(),
        Some(receipt) => {
            let content = receipt.content.map_or(String::new(), |content| {
                format!(" with content {}", hash(content))
            });
            let entry = recording.named(receipt.entry);
            format!("{} to {entry}{content}", recording.request(receipt.id))
        }
    };
    Some(Part {
        at: at.to_owned(),
        place: Some(format!("#{place}")),
        sides: [
            shown(&both[0], one.receipts.get(place)),
            shown(&both[1], other.receipts.get(place)),
        ],
    })
}

fn primitives(at: &str, one: &Lane, other: &Lane) -> Option<Part> {
    let keys = one.primitives.keys().chain(other.primitives.keys());
    let differ = keys.filter(|key| one.primitives.get(key) != other.primitives.get(key));
    let key = differ.min()?;
    let shown = |lane: &Lane| match lane.primitives.get(key) {
        None => "no primitive".to_owned(),
        Some((name, value)) => format!("{name} = {}", hex(value)),
    };
    Some(Part {
        at: at.to_owned(),
        place: Some(format!("{}:{}", member(&key.0), key.1)),
        sides: [shown(one), shown(other)],
    })
}
