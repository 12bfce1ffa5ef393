//! Expressions, and gdb's console.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::answers::{Answer, Refusal, arguments};
use crate::mi::quote;
use crate::program::Frame;
use crate::session::Session;
use crate::variables::shortened;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Evaluate {
    expression: String,
    frame_id: Option<i64>,
    context: Option<String>,
}

/// Prefix of a command for gdb's console.
const EXEC: &str = "-exec ";
/// The reason why there is no result.
const STOPPED: &str = "the function that was called has stopped at a breakpoint or a signal, \
    and is what is shown now; going on leads back to the recording";
/// The same, for an evaluation by the editor itself.
const ABANDONED: &str = "the function that was called came to a breakpoint or a signal, and was \
    left: call it in the console to see where";
/// First words of commands; no expression begins with them.
const COMMANDS: [&str; 13] = [
    "relive",
    "monitor",
    "info",
    "print",
    "ptype",
    "whatis",
    "backtrace",
    "bt",
    "disassemble",
    "list",
    "help",
    "show",
    "set",
];

/// The command of gdb's console in a text, if it is one.
fn command(text: &str) -> Option<&str> {
    let text = text.trim();
    if let Some(command) = text.strip_prefix(EXEC) {
        return Some(command.trim());
    }
    let first = text.split_whitespace().next()?;
    let is_alone = first == text && !matches!(first, "bt" | "backtrace");
    let known = COMMANDS.contains(&first) && !is_alone;
    (known || first.starts_with("x/")).then_some(text)
}

impl Session {
    pub(crate) fn evaluate(&mut self, given: &Json) -> Answer {
        let wanted: Evaluate = arguments(given)?;
        let frame = match wanted.frame_id {
            Some(id) => Some(self.frame_of(id)?),
            None => None,
        };
        let context = wanted.context.as_deref().unwrap_or("");
        if context == "repl"
            && let Some(command) = command(&wanted.expression)
        {
            let said = self.at_console(frame, command)?;
            return Ok(json!({ "result": said.trim_end(), "variablesReference": 0 }));
        }
        let expression = &wanted.expression;
        match context {
            // Hovering over a word must not call functions of the program.
            "hover" => self.without_calls(|session| session.result(frame, expression, false))?,
            // A user who types a call may want to see where it stops; an editor repeats its own at
            // each stop, and would nest them deeper and deeper.
            "repl" => self.result(frame, expression, false),
            _ => {
                let answer = self.result(frame, expression, context == "clipboard");
                if self.stop.is_some() && self.abandon().is_ok() {
                    return Err(ABANDONED.into());
                }
                answer
            }
        }
    }

    /// Leaves the function that gdb called and that has stopped.
    fn abandon(&mut self) -> Result<(), Refusal> {
        let answer = self.ask("-stack-list-frames")?;
        let called = answer.list("stack").iter().position(|frame| {
            let name = frame.text("func");
            name.is_some_and(|name| name.contains("function called from gdb"))
        });
        let outermost = called.and_then(|level| level.checked_sub(1));
        let outermost = outermost.ok_or("gdb has called no function")?;
        self.console(&format!("frame {outermost}"))?;
        self.console("return")?;
        self.stop = None;
        Ok(())
    }

    fn result(&mut self, frame: Option<Frame>, expression: &str, whole: bool) -> Answer {
        let mut shown = match self.variable(frame, expression, expression) {
            Ok(shown) => shown,
            // Another evaluation would only call the stopped function once more.
            Err(_) if self.stop.is_some() => return Err(STOPPED.into()),
            // gdb's error for a variable object gives no reason.
            Err(refusal) => {
                let text = self.value_of(frame, expression);
                return Err(text.err().unwrap_or(refusal));
            }
        };
        let mut value = shown["value"].as_str().unwrap_or("").to_owned();
        if value.is_empty() {
            // Nor does gdb give the reason why it has no value.
            if self.stop.is_some() {
                return Err(STOPPED.into());
            }
            value = self.value_of(frame, expression)?;
        }
        let mut result = value.clone();
        if whole || value.starts_with('{') || value.starts_with('[') {
            // An assignment must not be done twice: the variable object has evaluated it already.
            let again = !expression.contains('=') && !expression.contains('(');
            let again = again && !expression.contains("++") && !expression.contains("--");
            if again && let Ok(text) = self.value_of(frame, expression) {
                result = text;
            }
        }
        if !whole {
            result = shortened(&result);
        }
        shown["result"] = json!(result);
        if let Some(fields) = shown.as_object_mut() {
            for unused in ["name", "value", "evaluateName"] {
                fields.remove(unused);
            }
        }
        Ok(shown)
    }

    /// Runs a command of gdb's console.
    fn at_console(&mut self, frame: Option<Frame>, command: &str) -> Result<String, Refusal> {
        let words: Vec<&str> = command.split_whitespace().collect();
        if let ["relive" | "monitor", "goto", place @ ..] = words.as_slice() {
            return self.go_to(&place.join(" "));
        }
        let options = Frame::options_of(frame);
        let command = format!("-interpreter-exec {options} console {}", quote(command));
        let (answer, heard) = self.overhear(&command);
        answer.map(|_| heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_expressions() {
        for (text, expected) in [
            ("-exec info threads", Some("info threads")),
            ("relive position", Some("relive position")),
            ("x/4x $sp", Some("x/4x $sp")),
            ("bt", Some("bt")),
            ("list", None),
            ("info", None),
            ("x", None),
            ("total + 1", None),
            ("", None),
        ] {
            assert_eq!(command(text), expected, "{text}");
        }
    }
}
