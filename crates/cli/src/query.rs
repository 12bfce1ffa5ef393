//! `last-write` and `calls`: questions about a recording that a replay answers.

use relive_engine::Failure;
use relive_engine::supervisor::Status as Exit;
use relive_engine::timeline::{Call, LastWrite, Patient, Place, Timeline, follow};
use serde_json::{Value, json};

use crate::args::{CallsArgs, LastWriteArgs};
use crate::output::{self, Stop};
use crate::place;

/// Finds who wrote to an address last.
///
/// # Errors
/// Whatever stops the replay.
pub fn last_write(args: &LastWriteArgs) -> Result<Exit, Failure> {
    let trace = place::open(args.trace.trace.as_deref())?;
    let way = follow(&trace, args.process)?;
    let mut timeline = Timeline::open(trace.directory(), &way)?;
    timeline.goto_event(args.before.unwrap_or(u64::MAX), &mut Patient)?;
    let found = timeline.last_write(args.addr.0, args.len, &mut Patient)?;
    output::print(|out| {
        let text = match (&found, args.json) {
            (Some(w), true) => write_object(w).to_string(),
            (None, true) => Value::Null.to_string(),
            (Some(w), false) => write_text(w),
            (None, false) => "nothing has written there since the process began".to_owned(),
        };
        writeln!(out, "{text}").map_err(Stop::from)
    })
}

/// Lists the calls of a function.
///
/// # Errors
/// Whatever stops the replay.
pub fn calls(args: &CallsArgs) -> Result<Exit, Failure> {
    let trace = place::open(args.trace.as_deref())?;
    let way = follow(&trace, args.process)?;
    let mut timeline = Timeline::open(trace.directory(), &way)?;
    let found = timeline.calls(args.function.0, args.max, &mut Patient)?;
    output::print(|out| {
        for call in &found {
            let text = match args.json {
                true => call_object(call).to_string(),
                false => call_text(call),
            };
            writeln!(out, "{text}")?;
        }
        Ok(())
    })
}

fn place_text(place: &Place) -> String {
    format!(
        "p{}.t{} (thread {}), event {}, tick {}, pc {:#x}",
        place.process, place.thread, place.tid, place.event, place.tick, place.pc
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The name of the call that wrote.
fn by(call: Option<u32>) -> Option<String> {
    match call {
        None => None,
        Some(u32::MAX) => Some("the delivery of a signal".to_owned()),
        Some(nr) => Some(match relive_kabi::row(u64::from(nr)) {
            Some(row) => row.name.to_owned(),
            None => format!("system call {nr}"),
        }),
    }
}

fn write_text(w: &LastWrite) -> String {
    let by = by(w.call).map_or(String::new(), |name| format!(", by {name}"));
    let (before, after) = (hex(&w.before), hex(&w.after));
    format!("{}{by}: {before} -> {after}", place_text(&w.place))
}

fn write_object(w: &LastWrite) -> Value {
    json!({
        "place": w.place,
        "by": by(w.call),
        "before": hex(&w.before),
        "after": hex(&w.after),
    })
}

fn call_text(call: &Call) -> String {
    let arguments: Vec<String> = call.arguments.iter().map(|a| format!("{a:#x}")).collect();
    let result = match call.result {
        Some(value) => format!("{value:#x}"),
        None => "no return".to_owned(),
    };
    format!(
        "{}: ({}) = {result}",
        place_text(&call.place),
        arguments.join(", ")
    )
}

fn call_object(call: &Call) -> Value {
    json!({
        "place": call.place,
        "arguments": call.arguments,
        "return_to": call.return_to,
        "result": call.result,
    })
}
