//! Stops: gdb's reasons in the client's terms.

use serde_json::{Value as Json, json};

use crate::answers::Answer;
use crate::mi::Value;
use crate::run::{Run, Way};
use crate::session::Session;

/// Reasons for a stop: gdb's, the protocol's, and the text for the user.
const REASONS: [(&str, &str, &str); 10] = [
    ("breakpoint-hit", "breakpoint", "Paused on a breakpoint"),
    ("watchpoint-trigger", "data breakpoint", "Paused on a write"),
    (
        "read-watchpoint-trigger",
        "data breakpoint",
        "Paused on a read",
    ),
    (
        "access-watchpoint-trigger",
        "data breakpoint",
        "Paused on an access",
    ),
    (
        "watchpoint-scope",
        "data breakpoint",
        "A watched variable is gone",
    ),
    ("end-stepping-range", "step", "Paused after a step"),
    ("function-finished", "step", "Paused after a function"),
    ("location-reached", "step", "Paused after a step"),
    ("signal-received", "exception", "Paused on a signal"),
    ("solib-event", "pause", "Paused on a library"),
];

/// The server's messages about the end of a process.
const ENDS: [&str; 3] = [
    " exited with code ",
    " was killed by ",
    "the recording of process ",
];

/// Its messages while the recording runs.
const SERVER: [&str; 5] = [
    ENDS[0],
    ENDS[1],
    ENDS[2],
    "what was written into the program is forgotten",
    " wrote to watched memory",
];

impl Session {
    /// Tells the client the place of a stop, and its reason.
    pub(crate) fn tell_stop(&mut self, stop: Value) {
        // A stop in a function that gdb called comes without a run before it.
        self.forget();
        // Without gdb there is nothing to report.
        if self.look_at_threads().is_err() {
            return;
        }
        let body = self.stopped(&stop);
        self.told = Some(stop);
        self.pen.event("stopped", body);
    }

    fn stopped(&mut self, stop: &Value) -> Json {
        let found = REASONS.iter().find(|r| Some(r.0) == stop.text("reason"));
        let (reason, description) = match (found, self.ran, stop.text("reason")) {
            (Some((_, reason, description)), ..) => (*reason, (*description).to_owned()),
            (None, None, _) => ("entry", "Paused where the recording was opened".to_owned()),
            (None, Some(_), Some(event)) => ("pause", format!("Paused on {event}")),
            (None, Some(_), None) => ("pause", "Paused".to_owned()),
        };
        let mut body = json!({
            "reason": reason,
            "description": description,
            "threadId": self.thread_of(stop.number("thread-id")),
            "allThreadsStopped": true,
        });
        let number = ["bkptno", "wpnum"]
            .iter()
            .find_map(|n| stop.number::<u32>(n));
        let number = number.or(watch(stop).and_then(|w| w.number("number")));
        if let Some(number) = number {
            body["hitBreakpointIds"] = json!([number]);
        }
        match stop.text("reason").unwrap_or("") {
            "breakpoint-hit" => {
                let (reason, description) = self.breakpoints.kind(number);
                body["reason"] = json!(reason);
                body["description"] = json!(description);
            }
            _ if self.ran == Some(Run::GOTO) => {
                body["reason"] = json!("goto");
                body["description"] = json!("Paused at another place of the recording");
            }
            "signal-received" => match (stop.text("signal-name"), stop.text("signal-meaning")) {
                (Some("SIGINT"), _) if self.interrupted => {
                    body["reason"] = json!("pause");
                    body["description"] = json!("Paused");
                }
                (Some("SIGTRAP" | "0"), _) => {
                    body["reason"] = json!("pause");
                    body["description"] = json!("Paused");
                }
                (name, meaning) => {
                    let text = format!("{}: {}", name.unwrap_or("?"), meaning.unwrap_or("?"));
                    body["description"] = json!(format!("Paused before {}", name.unwrap_or("?")));
                    body["text"] = json!(text);
                }
            },
            "function-finished" => {
                if let Some(value) = stop.text("return-value") {
                    body["text"] = json!(format!("returned {value}"));
                }
            }
            _ => {
                if let Some(text) = self.change(stop) {
                    body["text"] = json!(text);
                }
            }
        }
        if stop.text("reason") == Some("no-history") || self.at_an_end {
            self.tell_end(&mut body);
        }
        self.said.clear();
        body
    }

    /// Reports an end of the recording in this direction.
    fn tell_end(&self, body: &mut Json) {
        let back = self.ran.is_some_and(|r| r.way == Way::Back);
        body["reason"] = json!("pause");
        body["description"] = json!(match back {
            true => "Start of the recording",
            false => "End of the recording",
        });
        let is_end = |line: &&String| ENDS.iter().any(|end| line.contains(end));
        if let Some(ended) = self.said.iter().rev().find(is_end).filter(|_| !back) {
            body["text"] = json!(ended.trim_matches(['[', ']']));
        }
    }

    /// The change by a write, in the order of the recorded time.
    fn change(&self, stop: &Value) -> Option<String> {
        let watch = watch(stop)?;
        let name = self.breakpoints.name_of_watch(watch.number("number")?);
        let name = name.or(watch.text("exp")).unwrap_or("?");
        let value = stop.get("value")?;
        let (old, new) = (value.text("old"), value.text("new"));
        let back = self.ran.is_some_and(|r| r.way == Way::Back);
        Some(match (old, new) {
            (Some(old), Some(new)) if back => format!("{name}: {new} → {old}"),
            (Some(old), Some(new)) => format!("{name}: {old} → {new}"),
            _ => format!("{name}: {}", value.text("value").unwrap_or("?")),
        })
    }

    /// Output while the recording runs: the program's, or messages of the server.
    pub(crate) fn hear_target(&mut self, text: String) {
        let line = text.trim_end();
        let is_server = line.starts_with('[')
            && line.ends_with(']')
            && SERVER.iter().any(|part| line.contains(part));
        match is_server {
            true => self.hear(text),
            false => self.pen.say("stdout", &text),
        }
    }

    /// Notes how the recorded process ended, if the line tells it.
    pub(crate) fn note_end(&mut self, line: &str) {
        let code = line.split_once(ENDS[0]).map(|parts| parts.1);
        let code = code.and_then(|c| c.trim_end_matches(']').parse().ok());
        self.exit_code = code.or(self.exit_code);
    }

    pub(crate) fn exception_info(&mut self, _: &Json) -> Answer {
        let stop = self.told.as_ref();
        let name = stop.and_then(|s| s.text("signal-name"));
        let (Some(stop), Some(name)) = (stop, name) else {
            return Err("the recording has not stopped on a signal".into());
        };
        Ok(json!({
            "exceptionId": name,
            "description": stop.text("signal-meaning"),
            "breakMode": "always",
        }))
    }
}

/// The watchpoint's entry in a stop.
fn watch(stop: &Value) -> Option<&Value> {
    ["wpt", "hw-rwpt", "hw-awpt"]
        .iter()
        .find_map(|n| stop.get(n))
}
