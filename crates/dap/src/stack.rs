//! Call stacks.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::answers::{Answer, Refusal, arguments};
use crate::mi::Value;
use crate::program::{Container, Frame};
use crate::session::Session;
use crate::source;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StackTrace {
    thread_id: i64,
    #[serde(default)]
    start_frame: u32,
    #[serde(default)]
    levels: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scopes {
    frame_id: i64,
}

/// Frames that are shown if the client gives no number.
const LEVELS: u32 = 1000;

impl Session {
    pub(crate) fn stack_trace(&mut self, given: &Json) -> Answer {
        let wanted: StackTrace = arguments(given)?;
        let thread = self.thread(wanted.thread_id)?;
        let from = wanted.start_frame;
        let levels = match wanted.levels {
            0 => LEVELS,
            n => n.min(LEVELS),
        };
        let end = from.saturating_add(levels);
        // One more than is shown: tells whether there are more, without unwinding them all.
        let most = end.saturating_add(1);
        let answer = self.ask(&format!("-stack-info-depth --thread {thread} {most}"))?;
        let depth: u32 = answer.number("depth").unwrap_or(0);
        let mut frames = Vec::new();
        if from < depth {
            let last = end.min(depth) - 1;
            let command = format!("-stack-list-frames --thread {thread} {from} {last}");
            let answer = self.ask(&command)?;
            for (level, frame) in (from..).zip(answer.list("stack")) {
                let id = self.frames.add(Frame { thread, level });
                frames.push(self.frame(id, frame));
            }
        }
        Ok(json!({ "stackFrames": frames, "totalFrames": depth }))
    }

    fn frame(&self, id: i64, frame: &Value) -> Json {
        let address = frame.text("addr").unwrap_or("?");
        let line: Option<i64> = frame.number("line");
        let mut shown = json!({
            "id": id,
            "name": frame.text("func").unwrap_or(address),
            "line": line.map_or(0, |line| self.line_out(line)),
            "column": 0,
            "instructionPointerReference": address,
        });
        match (source::of(frame), line) {
            (Some(source), Some(_)) => shown["source"] = source,
            _ => shown["presentationHint"] = json!("subtle"),
        }
        shown
    }

    /// A line in the client's numbering.
    pub(crate) fn line_out(&self, line: i64) -> i64 {
        line - 1 + self.first_line
    }

    /// A line in gdb's numbering.
    pub(crate) fn line_in(&self, line: i64) -> i64 {
        line.saturating_add(1 - self.first_line)
    }

    /// The frame behind a number of the client.
    pub(crate) fn frame_of(&self, id: i64) -> Result<Frame, Refusal> {
        let found = self.frames.get(id).copied();
        found.ok_or_else(|| format!("there is no frame {id} (any more)").into())
    }

    pub(crate) fn scopes(&mut self, given: &Json) -> Answer {
        let wanted: Scopes = arguments(given)?;
        let frame = self.frame_of(wanted.frame_id)?;
        let mut scopes = Vec::new();
        let finished = self.told.as_ref().filter(|_| frame.level == 0);
        let value = finished.and_then(|s| s.text("gdb-result-var"));
        if let Some(value) = value.map(str::to_owned) {
            let reference = self.containers.add(Container::Returned(frame, value));
            scopes.push(json!({
                "name": "Returned", "presentationHint": "returnValue",
                "variablesReference": reference, "expensive": false,
            }));
        }
        for (name, hint, container) in [
            ("Locals", "locals", Container::Locals(frame)),
            ("Arguments", "arguments", Container::Arguments(frame)),
            ("Registers", "registers", Container::Registers(frame)),
        ] {
            let reference = self.containers.add(container);
            scopes.push(json!({
                "name": name, "presentationHint": hint,
                "variablesReference": reference, "expensive": hint == "registers",
            }));
        }
        Ok(json!({ "scopes": scopes }))
    }
}
