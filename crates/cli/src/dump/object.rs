//! An event as a JSON object.

use relive_trace::{Event, Kind, TapeId};
use serde_json::{Map, Value, json};

use super::text::text;
use crate::{escape, format, syscall};

/// The event as an object. Numbers that may need more than 53 bits are hexadecimal strings.
pub(super) fn object(id: TapeId, index: u64, event: &Event<'_>) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    let hex = |value: u64| json!(format!("{value:#x}"));
    put("process", json!(id.process));
    put(
        "thread",
        if id.is_schedule() {
            Value::Null
        } else {
            json!(id.thread)
        },
    );
    put("index", json!(index));
    put("ticks", json!(event.ticks));
    put("digest", json!(event.digest));
    let kind = match event.kind {
        Kind::Start(start) => {
            put("parent", json!(start.parent.to_string()));
            put("pid", json!(start.pid));
            put("tid", json!(start.tid));
            "start"
        }
        Kind::Syscall(call) => {
            put("name", json!(syscall::name(&call)));
            put("nr", json!(call.nr));
            put(
                "args",
                call.args
                    .as_slice()
                    .iter()
                    .map(|&value| hex(value))
                    .collect(),
            );
            put("result", json!(call.result));
            put("errno", json!(syscall::errno(&call)));
            put("switched", json!(call.switched));
            put("order", json!(call.order));
            put("stream", json!(call.stream));
            put("writes", call.writes.iter().map(|(at, bytes)| json!({"address": hex(at), "bytes": bytes.len(), "text": escape::bytes(bytes)})).collect());
            put(
                "from_input",
                json!(call.refs.iter().map(|r| r.length).sum::<u64>()),
            );
            put("extra_bytes", json!(call.extra.len()));
            "syscall"
        }
        Kind::Signal(signal) if signal.signo == 0 => {
            put("bytes", json!(signal.siginfo.len()));
            put("steps", json!(signal.steps));
            "changes"
        }
        Kind::Signal(signal) => {
            put("signal", json!(format::signal(signal.signo.into())));
            put("steps", json!(signal.steps));
            "signal"
        }
        Kind::Switch { steps } => {
            put("steps", json!(steps));
            "switch"
        }
        Kind::Instr { op, values, n } => {
            put("name", json!(relive_engine::instruction_name(op)));
            put(
                "values",
                values[..usize::from(n)]
                    .iter()
                    .map(|&value| hex(value))
                    .collect(),
            );
            "instruction"
        }
        Kind::Exec(_) => "program",
        Kind::Turn { thread } => {
            put("turn", json!(thread));
            "turn"
        }
        Kind::Handover {
            thread,
            process,
            turn,
        } => {
            put("turn", json!(thread));
            put("after_process", json!(process));
            put("after_turn", json!(turn));
            "turn"
        }
        Kind::After { process, turn } => {
            put("after_process", json!(process));
            put("after_turn", json!(turn));
            "after"
        }
        Kind::Memory(writes) => {
            put(
                "writes",
                writes
                    .iter()
                    .map(|(at, bytes)| json!({"address": hex(at), "bytes": bytes.len()}))
                    .collect(),
            );
            "memory"
        }
        Kind::Readings {
            full,
            since,
            readings,
        } => {
            put("full", json!(full));
            put("first_tick", json!(event.ticks.wrapping_sub(since)));
            put(
                "readings",
                readings
                    .to_vec()
                    .into_iter()
                    .map(|r| {
                        let name = relive_engine::clock_name(r.source);
                        json!({"of": name, "value": hex(r.value), "second": r.extra})
                    })
                    .collect(),
            );
            "readings"
        }
        Kind::Moment { event, since, took } => {
            put("of_event", json!(event));
            put("since", json!(since));
            put("took", json!(took));
            "moment"
        }
        Kind::Edge {
            at,
            event,
            thread,
            op,
        } => {
            put("operation", json!(at));
            put("of_event", json!(event));
            put("after_thread", json!(thread));
            put("after_operation", json!(op));
            "edge"
        }
        Kind::Mark { event, pc } => {
            put("of_event", json!(event));
            if !event {
                put("pc", hex(pc));
            }
            "mark"
        }
        Kind::Behind {
            event,
            thread,
            mark,
        } => {
            put("of_event", json!(event));
            put("thread", json!(thread));
            put("mark", json!(mark));
            "behind"
        }
        Kind::Checksum { at, value } => {
            put("at", hex(at));
            put("value", hex(value));
            "checksum"
        }
        Kind::End { code, steps, .. } => {
            put("code", json!(code));
            put("steps", json!(steps));
            "end"
        }
    };
    put("kind", json!(kind));
    put("text", json!(text(event)));
    object.into()
}
