//! Scripted sessions with the debug adapter: an editor's requests, and the required answers.
//!
//! A script is one dropped file, `sessions/*.dap`. Headers as in [`crate::session`] (`guest`,
//! `gone`; `port: yes` for a connection instead of standard input and output), then steps:
//!
//! | line | meaning |
//! | --- | --- |
//! | `> COMMAND JSON` | a request, which must be answered before the next step |
//! | `= JSON` | the answer's body has these; without JSON: there is no body |
//! | `! PATTERN` | the request is refused with this message |
//! | `* EVENT JSON` | an event; a stop, a continuation and an end must not be skipped |
//! | `raw TEXT` | bytes, with the escapes of headers; `= …` or `! …` may follow |
//! | `kill NAME` | a process of the session of this name is killed |
//! | `close` | the editor disconnects |
//! | `end STATUS` | the adapter ends like this, and leaves no process |
//!
//! Instead of JSON, `@NAME` is a launch configuration of `docs/editors.md`.
//! In JSON `"*"` in a text stands for anything, `"..."` in a list for any number of elements,
//! `null` for a missing value. `"$name:"` keeps a value, `"$name"` is that value.

use std::collections::BTreeMap;

use serde_json::Value;

/// A script.
#[derive(Debug, Default, PartialEq)]
pub struct Script {
    /// The guest's source file.
    pub guest: String,
    /// The program is removed before the session.
    pub gone: bool,
    /// The editor connects to a port.
    pub port: bool,
    /// The steps.
    pub steps: Vec<Step>,
}

/// A step, with the number of its line.
#[derive(Debug, PartialEq)]
pub struct Step {
    /// From 1.
    pub line: usize,
    /// The action.
    pub action: Action,
}

/// One line.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// A request: command, arguments.
    Ask(String, Value),
    /// The last request is answered with this.
    Answer(Value),
    /// The last request is refused.
    Refusal(String),
    /// An event comes.
    Event(String, Value),
    /// Bytes.
    Raw(Vec<u8>),
    /// A process is killed.
    Kill(String),
    /// The client disconnects.
    Close,
    /// The adapter ends with a status.
    End(i32),
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The mistake, and its place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut script = Self::default();
        let mut open = false;
        for (line, text) in joined(text) {
            let wrong = |what: &str| format!("line {line}: {what}");
            if let Some(header) = text.strip_prefix("# ") {
                match header.split_once(": ") {
                    Some(("guest", name)) => script.guest = name.to_owned(),
                    Some(("gone", "yes")) => script.gone = true,
                    Some(("port", "yes")) => script.port = true,
                    // Other lines are remarks for readers.
                    _ => {}
                }
                continue;
            }
            let action = action(&text).map_err(|e| wrong(&e))?;
            let answers = matches!(action, Action::Answer(_) | Action::Refusal(_));
            if open && !answers {
                return Err(wrong("the request before it has no answer"));
            }
            open = matches!(action, Action::Ask(..));
            script.steps.push(Step { line, action });
        }
        if script.guest.is_empty() || script.steps.is_empty() || open {
            return Err("a script has a guest, steps, and an answer to each request".to_owned());
        }
        Ok(script)
    }
}

/// Lines with content; one that begins with a space continues the line before.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    for (n, line) in text.lines().enumerate() {
        match all.last_mut() {
            Some((_, before)) if line.starts_with(' ') => before.push_str(line),
            _ if line.trim().is_empty() => {}
            _ => all.push((n + 1, line.to_owned())),
        }
    }
    all
}

fn action(text: &str) -> Result<Action, String> {
    let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
    let json = |text: &str| -> Result<Value, String> {
        match text.trim() {
            "" => Ok(Value::Null),
            // The name of a launch configuration.
            name if name.starts_with('@') => Ok(Value::String(name.to_owned())),
            text => serde_json::from_str(text).map_err(|e| format!("{text}: {e}")),
        }
    };
    let named = |text: &str| -> Result<(String, Value), String> {
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        Ok((name.to_owned(), json(rest)?))
    };
    Ok(match kind {
        ">" => {
            let (command, arguments) = named(rest)?;
            Action::Ask(command, arguments)
        }
        "=" => Action::Answer(json(rest)?),
        "!" => Action::Refusal(rest.to_owned()),
        "*" => {
            let (event, body) = named(rest)?;
            Action::Event(event, body)
        }
        "raw" => Action::Raw(crate::escape::unescape(rest)?),
        "kill" => Action::Kill(rest.to_owned()),
        "close" => Action::Close,
        "end" => Action::End(rest.parse().map_err(|_| format!("{rest} is no status"))?),
        _ => return Err(format!("'{text}' is no step")),
    })
}

/// Values that a script has kept.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<String, Value>);

impl Names {
    /// Keeps a value.
    pub fn keep(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// Replaces names by their kept values.
    ///
    /// # Errors
    /// A name without a kept value.
    pub fn fill(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(name) => {
                    let kept = self.0.get(name);
                    kept.cloned()
                        .ok_or_else(|| format!("nothing is kept as {name}"))?
                }
                None => value.clone(),
            },
            Value::Array(all) => {
                let all: Result<Vec<_>, _> = all.iter().map(|v| self.fill(v)).collect();
                all?.into()
            }
            Value::Object(fields) => {
                let fields = fields.iter().map(|(k, v)| Ok((k.clone(), self.fill(v)?)));
                Value::Object(fields.collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }

    /// Whether a value is as expected; keeps the values that are to be kept.
    pub fn fits(&mut self, expected: &Value, found: &Value) -> bool {
        match (expected, found) {
            (Value::String(pattern), _) if pattern.starts_with('$') => {
                match pattern[1..].strip_suffix(':') {
                    Some(name) => {
                        self.keep(name, found.clone());
                        !found.is_null()
                    }
                    None => self.0.get(&pattern[1..]) == Some(found),
                }
            }
            (Value::String(pattern), Value::String(text)) => crate::session::matches(pattern, text),
            (Value::Object(fields), Value::Object(_)) => {
                fields.iter().all(|(name, v)| self.fits(v, &found[name]))
            }
            (Value::Array(expected), Value::Array(found)) => self.all_fit(expected, found),
            _ => expected == found,
        }
    }

    fn all_fit(&mut self, expected: &[Value], found: &[Value]) -> bool {
        match expected.split_first() {
            None => found.is_empty(),
            Some((gap, rest)) if gap == "..." => {
                (0..=found.len()).any(|n| self.all_fit(rest, &found[n..]))
            }
            Some((first, rest)) => match found.split_first() {
                Some((f, others)) => self.fits(first, f) && self.all_fit(rest, others),
                None => false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_script_is_read() {
        let text = "# guest: a.c\n\n> threads\n= {\"threads\":\n  []}\n> x {\"a\": 1}\n! no *\n\
                    * stopped {}\nraw a\\n\nkill gdb\nclose\nend 0\n";
        let script = Script::parse(text).unwrap();
        let lines: Vec<usize> = script.steps.iter().map(|s| s.line).collect();
        assert_eq!(lines, [3, 4, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(
            script.steps[1].action,
            Action::Answer(json!({ "threads": [] }))
        );
        assert_eq!(script.steps[5].action, Action::Raw(b"a\n".to_vec()));
        for wrong in [
            "# guest: a.c\n> threads\n",
            "# guest: a.c\n> threads\n* stopped\n",
            "> threads\n= {}\n",
            "# guest: a.c\nhello\n",
            "# guest: a.c\n> threads {\n= {}\n",
        ] {
            assert!(Script::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_are_compared() {
        let mut names = Names::default();
        names.keep("id", json!(7));
        for (expected, found, fits) in [
            (json!({ "a": 1 }), json!({ "a": 1, "b": 2 }), true),
            (json!({ "a": 1 }), json!({ "b": 2 }), false),
            (json!({ "a": null }), json!({ "b": 2 }), true),
            (json!([1, "..."]), json!([1, 2, 3]), true),
            (json!(["...", 3]), json!([1, 2, 3]), true),
            (json!(["...", 2, "..."]), json!([1, 3]), false),
            (json!([1]), json!([1, 2]), false),
            (json!([1, 2]), json!([1]), false),
            (json!("a*"), json!("abc"), true),
            (json!("a*"), json!("bc"), false),
            (json!("$id"), json!(7), true),
            (json!("$id"), json!(8), false),
            (json!("$none:"), Value::Null, false),
        ] {
            assert_eq!(names.fits(&expected, &found), fits, "{expected} {found}");
        }
        assert!(names.fits(&json!({ "x": "$new:" }), &json!({ "x": [1] })));
        assert_eq!(names.fill(&json!({ "y": "$new" })), Ok(json!({ "y": [1] })));
        assert!(names.fill(&json!("$unknown")).is_err());
    }
}
