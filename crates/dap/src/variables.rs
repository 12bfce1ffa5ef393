//! Variables: gdb's variable objects, level by level.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::answers::{Answer, Refusal, arguments};
use crate::mi::{Value, quote};
use crate::program::{Container, Frame, Object};
use crate::session::Session;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Variables {
    variables_reference: i64,
    #[serde(default)]
    start: usize,
    #[serde(default)]
    count: usize,
    filter: Option<String>,
}

/// Parts that are shown if the client gives no number.
const PARTS: usize = 1000;
/// Limit on the parts that are shown with a preview of their own parts; more take too long.
const PREVIEWS: usize = 100;
/// Characters of a preview.
const PREVIEW: usize = 200;
/// Vector registers.
const VECTORS: usize = 16;
/// The other registers, by gdb's names.
const REGISTERS: [&str; 26] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "rip", "eflags", "fs_base", "gs_base", "cs", "ss", "ds", "es", "fs", "gs",
];

impl Session {
    pub(crate) fn variables(&mut self, given: &Json) -> Answer {
        let wanted: Variables = arguments(given)?;
        let found = self.containers.get(wanted.variables_reference).cloned();
        let found = found.ok_or_else(|| {
            let n = wanted.variables_reference;
            format!("there are no variables {n} (any more)")
        })?;
        let named = wanted.filter.as_deref() == Some("named");
        let all = match found {
            Container::Arguments(frame) => self.of_frame(frame, true)?,
            Container::Locals(frame) => self.of_frame(frame, false)?,
            Container::Registers(frame) => self.registers(frame)?,
            Container::Vectors(frame) => {
                let names = (0..VECTORS).map(|n| format!("$ymm{n}"));
                let mut all = Vec::new();
                for name in names {
                    all.push(self.variable(Some(frame), &name, &name[1..])?);
                }
                all
            }
            Container::Returned(frame, name) => {
                vec![self.variable(Some(frame), &name, "value")?]
            }
            // A container with numbered parts has no others.
            Container::Parts(object) if object.list && named => Vec::new(),
            Container::Parts(object) => {
                let count = match wanted.count {
                    0 => PARTS,
                    n => n.min(PARTS),
                };
                self.parts(&object, wanted.start, count, wanted.count == 0)?
            }
        };
        Ok(json!({ "variables": all }))
    }

    /// The variables of a frame.
    fn of_frame(&mut self, frame: Frame, arguments: bool) -> Result<Vec<Json>, Refusal> {
        let command = format!("-stack-list-variables {} --all-values", frame.options());
        let answer = self.ask(&command)?;
        let mut all: Vec<Json> = Vec::new();
        for variable in answer.list("variables") {
            if variable.text("arg").is_some() != arguments {
                continue;
            }
            let Some(name) = variable.text("name") else {
                continue;
            };
            let value = variable.text("value").unwrap_or("");
            let shadowed = all.iter().any(|v| v["evaluateName"] == json!(name));
            let mut shown = match shadowed {
                // Of several variables of one name gdb finds the innermost only.
                true => json!({ "variablesReference": 0, "name": format!("{name} (outer)") }),
                false => match self.variable(Some(frame), name, name) {
                    Ok(shown) => shown,
                    Err(refusal) if self.gdb.is_none() => return Err(refusal),
                    Err(_) => json!({ "variablesReference": 0, "name": name }),
                },
            };
            shown["value"] = json!(shortened(value));
            all.push(shown);
        }
        Ok(all)
    }

    fn registers(&mut self, frame: Frame) -> Result<Vec<Json>, Refusal> {
        let names = self.ask("-data-list-register-names")?;
        let names = names.list("register-names");
        let number = |name: &str| {
            names
                .iter()
                .position(|n| matches!(n, Value::Text(t) if t == name))
        };
        let mut all = Vec::new();
        let (flags, plain): (Vec<&str>, Vec<&str>) =
            REGISTERS.iter().partition(|name| **name == "eflags");
        for (format, group) in [("x", plain), ("N", flags)] {
            let numbers: Vec<(usize, &str)> = group
                .into_iter()
                .filter_map(|name| Some((number(name)?, name)))
                .collect();
            let list: Vec<String> = numbers.iter().map(|n| n.0.to_string()).collect();
            let answer = self.ask(&format!(
                "-data-list-register-values {} {format} {}",
                frame.options(),
                list.join(" ")
            ))?;
            for value in answer.list("register-values") {
                let n: Option<usize> = value.number("number");
                let name = numbers.iter().find(|(number, _)| Some(*number) == n);
                let Some((_, name)) = name else { continue };
                let text = value.text("value").unwrap_or("");
                let mut shown = json!({
                    "name": name, "value": text, "variablesReference": 0,
                    "evaluateName": format!("${name}"),
                });
                if format == "x" && text != "0x0" {
                    shown["memoryReference"] = json!(text);
                }
                all.push(shown);
            }
        }
        let vectors = self.containers.add(Container::Vectors(frame));
        all.push(json!({ "name": "vectors", "value": "", "variablesReference": vectors }));
        Ok(all)
    }

    /// A variable object of gdb's, which lives until the stop ends.
    pub(crate) fn object(
        &mut self,
        frame: Option<Frame>,
        expression: &str,
    ) -> Result<Value, Refusal> {
        let options = Frame::options_of(frame);
        let command = format!("-var-create {options} - * {}", quote(expression));
        let object = self.ask(&command)?;
        if let Some(name) = object.text("name") {
            self.objects.push(name.to_owned());
        }
        Ok(object)
    }

    /// An expression as a variable.
    pub(crate) fn variable(
        &mut self,
        frame: Option<Frame>,
        expression: &str,
        name: &str,
    ) -> Result<Json, Refusal> {
        let object = self.object(frame, expression)?;
        let mut shown = self.shown_object(frame, name, &object);
        shown["evaluateName"] = json!(expression);
        Ok(shown)
    }

    fn shown_object(&mut self, frame: Option<Frame>, name: &str, object: &Value) -> Json {
        let value = object.text("value").unwrap_or("");
        let parts: usize = object.number("numchild").unwrap_or(0);
        let dynamic = object.text("dynamic") == Some("1");
        let mut shown = json!({
            "name": name,
            "value": shortened(value),
            "variablesReference": 0,
        });
        if let Some(kind) = object.text("type") {
            shown["type"] = json!(kind);
        }
        let more = object.text("has_more") == Some("1");
        if let Some(gdb) = object.text("name").filter(|_| parts > 0 || more) {
            let list = value.starts_with('[') && !dynamic;
            let container = Container::Parts(Object {
                name: gdb.to_owned(),
                frame,
                dynamic,
                map: object.text("displayhint") == Some("map"),
                list,
            });
            shown["variablesReference"] = json!(self.containers.add(container));
            if list {
                shown["indexedVariables"] = json!(parts);
            }
        }
        if let Some(address) = pointer(value) {
            shown["memoryReference"] = json!(address);
        }
        shown
    }

    /// The parts of a variable object.
    fn parts(
        &mut self,
        object: &Object,
        from: usize,
        count: usize,
        all_wanted: bool,
    ) -> Result<Vec<Json>, Refusal> {
        // Each entry of a map is two parts to gdb, and one to the client.
        let step = if object.map { 2 } else { 1 };
        let start = from.saturating_mul(step);
        let end = from.saturating_add(count).saturating_mul(step);
        // gdb treats a number out of its range as all parts.
        if i32::try_from(end).is_err() {
            return Ok(Vec::new());
        }
        let command = format!(
            "-var-list-children --all-values {} {start} {end}",
            quote(&object.name)
        );
        let answer = self.ask(&command)?;
        let children = answer.list("children");
        let mut all = Vec::new();
        if object.map {
            for pair in children.chunks(2) {
                let [key, value] = pair else { continue };
                let name = format!("[{}]", key.text("value").unwrap_or("?"));
                all.push(self.part(object, &name, value, all.len()));
            }
        } else {
            for child in children {
                let name = child.text("exp").unwrap_or("?");
                let access = matches!(name, "public" | "private" | "protected");
                if access && child.text("type").is_none() {
                    // The parts of a C++ class, by access.
                    let inner = Object {
                        name: child.text("name").unwrap_or("").to_owned(),
                        frame: object.frame,
                        dynamic: false,
                        map: false,
                        list: false,
                    };
                    all.extend(self.parts(&inner, 0, PARTS, true)?);
                    continue;
                }
                all.push(self.part(object, name, child, all.len()));
            }
        }
        let more = answer.text("has_more") == Some("1");
        let known: usize = answer.number("numchild").unwrap_or(0);
        if all_wanted && (more || known > end && end - start == children.len()) {
            let text = format!("only the first {count} are shown");
            all.push(json!({ "name": "…", "value": text, "variablesReference": 0 }));
        }
        Ok(all)
    }

    fn part(&mut self, parent: &Object, name: &str, child: &Value, before: usize) -> Json {
        let name = match name.parse::<u64>() {
            Ok(_) => format!("[{name}]"),
            Err(_) => name.to_owned(),
        };
        let mut shown = self.shown_object(parent.frame, &name, child);
        if shown["value"] == json!("") {
            // gdb prints nothing for the target of an invalid pointer.
            shown["value"] = json!("<cannot be read>");
        }
        if parent.dynamic || before >= PREVIEWS {
            return shown;
        }
        let gdb = child.text("name").unwrap_or("");
        let Ok(path) = self.path(parent.frame, gdb) else {
            return shown;
        };
        shown["evaluateName"] = json!(path);
        let value = child.text("value").unwrap_or("");
        if (value.starts_with('{') || value.starts_with('['))
            && let Ok(text) = self.value_of(parent.frame, &path)
        {
            shown["value"] = json!(shortened(&text));
        }
        shown
    }

    /// The expression for a variable object.
    fn path(&mut self, frame: Option<Frame>, object: &str) -> Result<String, Refusal> {
        let command = format!("-var-info-path-expression {}", quote(object));
        let answer = self.ask(&command)?;
        match answer.text("path_expr") {
            // gdb writes it in C's syntax, whatever the language is.
            Some(path) if path.contains("->") && self.is_rust(frame)? => {
                Ok(path.replace("->", "."))
            }
            Some(path) if !path.is_empty() => Ok(path.to_owned()),
            _ => Err("there is no expression for it".into()),
        }
    }

    fn is_rust(&mut self, frame: Option<Frame>) -> Result<bool, Refusal> {
        let options = Frame::options_of(frame);
        let command = format!("-interpreter-exec {options} console \"show language\"");
        let (answer, text) = self.overhear(&command);
        answer.map(|_| text.contains("rust"))
    }

    /// The expression for a variable in a container, and its frame.
    pub(crate) fn expression(
        &mut self,
        reference: i64,
        name: &str,
    ) -> Result<(Option<Frame>, String), Refusal> {
        let found = self.containers.get(reference).cloned();
        match found {
            Some(Container::Arguments(frame) | Container::Locals(frame)) => {
                Ok((Some(frame), name.to_owned()))
            }
            Some(Container::Parts(object)) if !object.dynamic => {
                let all = self.parts(&object, 0, PARTS, false)?;
                let same = |v: &&Json| v["name"] == json!(name);
                let path = all.iter().find(same).map(|v| &v["evaluateName"]);
                match path.and_then(Json::as_str) {
                    Some(path) => Ok((object.frame, path.to_owned())),
                    None => Err(format!("gdb has no address of {name}").into()),
                }
            }
            Some(Container::Parts(_)) => {
                Err(format!("a pretty-printer shows {name}: its address is not known").into())
            }
            Some(_) => Err(format!("{name} does not lie in memory").into()),
            None => Err(format!("there are no variables {reference} (any more)").into()),
        }
    }
}

/// A value in one line.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(PREVIEW) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The address in a pointer's value: `0x1234 <name>`, `(int *) 0x1234`.
fn pointer(value: &str) -> Option<&str> {
    let value = match value.strip_prefix('(') {
        Some(rest) => rest.split_once(") ")?.1,
        None => value,
    };
    let digits = value.strip_prefix("0x")?;
    let end = digits.find(|c: char| !c.is_ascii_hexdigit());
    let len = end.unwrap_or(digits.len()) + 2;
    (value != "0x0").then_some(&value[..len])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_seen() {
        for (value, expected) in [
            ("0x1234", Some("0x1234")),
            ("0x12 <total>", Some("0x12")),
            ("(int *) 0x12ab \"x\"", Some("0x12ab")),
            ("0x0", None),
            ("12", None),
            ("{a = 0x12}", None),
            ("", None),
        ] {
            assert_eq!(pointer(value), expected, "{value}");
        }
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(shortened("abc"), "abc");
        let long = "é".repeat(PREVIEW + 1);
        assert_eq!(shortened(&long).chars().count(), PREVIEW + 1);
    }
}
