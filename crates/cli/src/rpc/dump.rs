//! `relive rpc dump`.

use std::collections::BTreeMap;
use std::io::Write;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_rpc::tape::Lane;
use relive_rpc::{Member, Receipt, StreamId, Tape};
use serde_json::{Value, json};

use super::recording::{Recording, hash, member};
use crate::args::RpcDumpArgs;
use crate::output::{self, Stop};
use crate::query::hex;

/// Bytes of a value that are shown.
const SHOWN: usize = 32;

/// Prints the records of the lanes that are asked for.
pub fn execute(args: &RpcDumpArgs) -> Result<EndStatus, Failure> {
    let recording = Recording::open(&args.dir)?;
    let mut found = false;
    output::print(|out| {
        for tape in &recording.tapes {
            let process = tape.process.as_str();
            if args.process.as_deref().is_some_and(|name| name != process) {
                continue;
            }
            for lane in &tape.lanes {
                let name = lane.name.as_str();
                if args.lane.as_deref().is_none_or(|asked| asked == name) {
                    found = true;
                    dump(out, args, &recording, tape, lane)?;
                }
            }
        }
        match found {
            true => Ok(()),
            false => Err(Stop::Failure(Failure::setup(
                "the recording has no such process or lane: relive rpc info shows them",
            ))),
        }
    })
}

/// Something of a task of a lane; in the order of a place's records.
enum Detail<'a> {
    Primitive(u64, &'a str, &'a [u8]),
    Payload(StreamId, &'a [Vec<u8>]),
    Cancelled(u64),
}

/// All but the receipts, by task; those of one task in the order of its operations.
fn details(lane: &Lane) -> BTreeMap<Member, Vec<Detail<'_>>> {
    let mut all: BTreeMap<Member, Vec<(u64, Detail)>> = BTreeMap::new();
    for ((task, number), (name, value)) in &lane.primitives {
        let detail = Detail::Primitive(*number, name.as_str(), value);
        all.entry(*task).or_default().push((*number, detail));
    }
    for ((task, stream), parts) in &lane.payloads {
        let order = match stream {
            StreamId::Request => 0,
            StreamId::Answer(number) => *number,
            StreamId::Given => u64::MAX,
        };
        let detail = Detail::Payload(*stream, parts);
        all.entry(*task).or_default().push((order, detail));
    }
    for (task, operations) in &lane.cancelled {
        let detail = Detail::Cancelled(*operations);
        all.entry(*task).or_default().push((u64::MAX, detail));
    }
    let sorted = all.into_iter().map(|(task, mut details)| {
        details.sort_by_key(|(order, _)| *order);
        let details = details.into_iter().map(|(_, detail)| detail);
        (task, details.collect())
    });
    sorted.collect()
}

fn dump(
    out: &mut dyn Write,
    args: &RpcDumpArgs,
    recording: &Recording,
    tape: &Tape,
    lane: &Lane,
) -> Result<(), Stop> {
    let place = format!("{}/{}", tape.process, lane.name);
    if !args.json {
        writeln!(out, "{place}: {}", lane.kind.as_str())?;
    }
    let to = args.to.unwrap_or(u64::MAX);
    let mut details = details(lane).into_iter().peekable();
    let mut receipts = (0..).zip(&lane.receipts);
    loop {
        let receipt = receipts.next();
        let until = receipt.map_or(u64::MAX, |(at, _)| at);
        // Tasks of the receipts before this one.
        while let Some((task, of_task)) = details.next_if(|(task, _)| task.place < until) {
            if (args.from..=to).contains(&task.place) {
                for detail in &of_task {
                    show(out, args.json, &place, &task, detail)?;
                }
            }
        }
        let Some((at, receipt)) = receipt else {
            return Ok(());
        };
        if (args.from..=to).contains(&at) {
            show_receipt(out, args.json, recording, lane, &place, at, receipt)?;
        }
    }
}

fn show_receipt(
    out: &mut dyn Write,
    json: bool,
    recording: &Recording,
    lane: &Lane,
    place: &str,
    at: u64,
    receipt: &Receipt,
) -> Result<(), Stop> {
    let request = recording.request(receipt.id);
    let entry = recording.named(receipt.entry);
    let content = receipt.content.map(hash);
    if json {
        let object = json!({
            "record": "receipt", "lane": place, "place": at, "request": request,
            "entry": entry, "content": content,
        });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    let to = match entry == lane.name.as_str() {
        true => String::new(),
        false => format!(" to {entry}"),
    };
    let content = content.map_or(String::new(), |hash| format!(" content {hash}"));
    writeln!(out, "  #{at} {request}{to}{content}")?;
    Ok(())
}

fn show(
    out: &mut dyn Write,
    json: bool,
    place: &str,
    task: &Member,
    detail: &Detail,
) -> Result<(), Stop> {
    let task = member(task);
    if json {
        let mut object = match detail {
            Detail::Primitive(number, name, value) => {
                json!({"record": "primitive", "number": number, "name": name, "value": hex(value)})
            }
            Detail::Payload(stream, parts) => {
                json!({"record": "payload", "of": of(*stream), "parts": parts.len(), "bytes": length(parts)})
            }
            Detail::Cancelled(operations) => {
                json!({"record": "cancelled", "operations": operations})
            }
        };
        object["lane"] = Value::from(place);
        object["task"] = Value::from(task);
        writeln!(out, "{object}")?;
        return Ok(());
    }
    match detail {
        Detail::Primitive(number, name, value) => {
            let shown = hex(&value[..value.len().min(SHOWN)]);
            let more = if value.len() > SHOWN { "…" } else { "" };
            writeln!(out, "    {task}:{number} {name} = {shown}{more}")?;
        }
        Detail::Payload(stream, parts) => {
            let bytes = length(parts);
            writeln!(out, "    {task} {}, {bytes} bytes kept", of(*stream))?;
        }
        Detail::Cancelled(operations) => {
            writeln!(out, "    {task} cancelled after {operations} operations")?;
        }
    }
    Ok(())
}

fn of(stream: StreamId) -> String {
    match stream {
        StreamId::Request => "its request".to_owned(),
        StreamId::Answer(number) => format!("the answer to :{number}"),
        StreamId::Given => "the hash of its answer".to_owned(),
    }
}

fn length(parts: &[Vec<u8>]) -> usize {
    parts.iter().map(Vec::len).sum()
}
