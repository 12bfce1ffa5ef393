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

/// Finds who wrote to an address last.
///
/// # Errors
/// Whatever stops the replay.
pub fn last_write(args: &LastWriteArgs) -> Result<Exit, Failure> {
    let trace = place::open_to_replay(args.trace.trace.as_deref())?;
    let way = follow(&trace, args.process)?;
    let mut timeline = Timeline::open(trace.directory(), &way)?;
    timeline.goto_event(args.before.unwrap_or(u64::MAX), &mut Patient)?;
    let (addr, size) = match (&args.addr, &args.var) {
        (Some(addr), _) => (addr.0, 0),
        (None, Some(name)) => {
            let found = names::find(&mut timeline, name, Kind::Variable)?;
            (found.address, found.size)
        }
        (None, None) => return Err(Failure::internal("one of two arguments is required")),
    };
    let whole = if size == 0 { 8 } else { size.min(1 << 20) };
    let len = args.len.unwrap_or(whole);
    let found = timeline.last_write(addr, len, &mut Patient)?;
    let named = found
        .as_ref()
        .map(|w| names::space(&mut timeline).name(w.place.pc));
    output::print(|out| {
        let text = match (found.as_ref().zip(named.as_ref()), args.json) {
            (Some((w, named)), true) => write_object(w, named).to_string(),
            (None, true) => Value::Null.to_string(),
            (Some((w, named)), false) => write_text(w, named),
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
        Some(OTHERS) => Some("another process".to_owned()),
        Some(u32::MAX) => Some("the delivery of a signal".to_owned()),
        Some(nr) => Some(match relive_kabi::row(u64::from(nr)) {
            Some(row) => row.name.to_owned(),
            None => format!("system call {nr}"),
        }),
    }
}

fn write_text(w: &LastWrite, named: &Named) -> String {
    let by = by(w.call).map_or(String::new(), |name| format!(", by {name}"));
    let (before, after) = (hex(&w.before), hex(&w.after));
    format!(
        "{} in {}{by}: {before} -> {after}",
        place_text(&w.place),
        names::text(named)
    )
}

fn write_object(w: &LastWrite, named: &Named) -> Value {
    json!({
        "place": w.place,
        "code": names::object(named),
        "by": by(w.call),
        "before": hex(&w.before),
        "after": hex(&w.after),
    })
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
