//! `last-write` and `calls`: questions about a recording that a replay answers.

use relive_engine::Failure;
use relive_engine::supervisor::Status as Exit;
use relive_engine::timeline::{Call, LastWrite, OTHERS, Patient, Place, Timeline, follow};
use relive_symbols::{Kind, Named};
use serde_json::{Value, json};

use crate::args::{CallsArgs, Function, LastWriteArgs};
use crate::names;
use crate::output::{self, Stop};
use crate::place;

/// Lists the calls of a function.
///
/// # Errors
/// Whatever stops the replay.
pub fn calls(args: &CallsArgs) -> Result<Exit, Failure> {
    let trace = place::open_to_replay(args.trace.as_deref())?;
    let way = follow(&trace, args.process)?;
    let mut timeline = Timeline::open(trace.directory(), &way)?;
    let function = match &args.function {
        Function::Address(at) => *at,
        Function::Name(name) => names::find(&mut timeline, name, Kind::Function)?.address,
    };
    let found = timeline.calls(function, args.max, &mut Patient)?;
    let space = names::space(&mut timeline);
    output::print(|out| {
        for call in &found {
            // The call, not the instruction behind it.
            let caller = space.name(call.return_to.wrapping_sub(1));
            let text = match args.json {
                true => call_object(call, &caller).to_string(),
                false => call_text(call, &caller),
            };
            writeln!(out, "{text}")?;
        }
        Ok(())
    })
}

/// Where something happens, in words.
pub fn place_text(place: &Place) -> String {
    format!(
        "p{}.t{} (thread {}), event {}, tick {}, pc {:#x}",
        place.process, place.thread, place.tid, place.event, place.tick, place.pc
    )
}

/// Bytes as they lie in memory.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn call_text(call: &Call, caller: &Named) -> String {
    let arguments: Vec<String> = call.arguments.iter().map(|a| format!("{a:#x}")).collect();
    let result = match call.result {
        Some(value) => format!("{value:#x}"),
        None => "no return".to_owned(),
    };
    format!(
        "{}: ({}) = {result}, called by {}",
        place_text(&call.place),
        arguments.join(", "),
        names::text(caller)
    )
}

fn call_object(call: &Call, caller: &Named) -> Value {
    json!({
        "place": call.place,
        "arguments": call.arguments,
        "return_to": call.return_to,
        "caller": names::object(caller),
        "result": call.result,
    })
}
