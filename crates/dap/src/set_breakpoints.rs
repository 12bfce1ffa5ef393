//! Setting breakpoints of all kinds. The client always sends all breakpoints of one kind (of one
//! source file); those that it sent before stay unchanged, with their numbers and hit counts.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::answers::{Answer, Refusal, arguments};
use crate::breakpoints::{Group, Kept, Wanted};
use crate::mi::{Value, quote};
use crate::session::Session;
use crate::source;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetBreakpoints {
    source: Source,
    breakpoints: Option<Vec<AtLine>>,
    /// The form that old clients send.
    #[serde(default)]
    lines: Vec<i64>,
}

#[derive(Deserialize)]
struct Source {
    path: Option<String>,
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AtLine {
    line: i64,
    condition: Option<String>,
    hit_condition: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AtFunction {
    name: String,
    condition: Option<String>,
    hit_condition: Option<String>,
}

#[derive(Deserialize)]
struct SetFunctionBreakpoints {
    breakpoints: Vec<AtFunction>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AtInstruction {
    instruction_reference: String,
    #[serde(default)]
    offset: i64,
    condition: Option<String>,
    hit_condition: Option<String>,
}

#[derive(Deserialize)]
struct SetInstructionBreakpoints {
    breakpoints: Vec<AtInstruction>,
}

/// Sets a breakpoint, also where no code is loaded yet.
const INSERT: &str = "-break-insert -f";

impl Session {
    pub(crate) fn set_breakpoints(&mut self, given: &Json) -> Answer {
        let set: SetBreakpoints = arguments(given)?;
        let path = set.source.path.or(set.source.name);
        let path = path.ok_or("a source has a path")?;
        let lines = set.lines.iter().map(|line| AtLine {
            line: *line,
            ..AtLine::default()
        });
        let breakpoints = set.breakpoints.unwrap_or_else(|| lines.collect());
        let mut all = Vec::new();
        let mut files = None;
        for b in &breakpoints {
            let line = self.line_in(b.line);
            let mut wanted = Wanted {
                command: INSERT,
                place: at_line(&path, line),
                name: path.clone(),
                condition: b.condition.clone(),
                hit: b.hit_condition.clone(),
                language: None,
            };
            if files.is_none() {
                files = Some(self.files_like(&path)?);
            }
            if let Some(Some(file)) = &files {
                wanted.place = at_line(file, line);
            }
            all.push(Ok(wanted));
        }
        self.replace(Group::Source(path), all)
    }

    /// The program's source file for a client's path, if it is not that very path: the only one of
    /// this name, or the one with most folders in common.
    fn files_like(&mut self, path: &str) -> Result<Option<String>, Refusal> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let pattern = quote(&format!("^{}$", source::escape(name)));
        let command = format!("-file-list-exec-source-files --basename -- {pattern}");
        let answer = self.ask(&command)?;
        let names = answer.list("files").iter();
        let names: Vec<&str> = names
            .filter_map(|f| f.text("fullname").or(f.text("file")))
            .collect();
        Ok(alike(path, &names).map(str::to_owned))
    }

    pub(crate) fn set_function_breakpoints(&mut self, given: &Json) -> Answer {
        let set: SetFunctionBreakpoints = arguments(given)?;
        let all = set.breakpoints.into_iter().map(|b| {
            Ok(Wanted {
                command: INSERT,
                place: quote(&b.name),
                name: b.name,
                condition: b.condition,
                hit: b.hit_condition,
                language: None,
            })
        });
        self.replace(Group::Functions, all.collect())
    }

    pub(crate) fn set_instruction_breakpoints(&mut self, given: &Json) -> Answer {
        let set: SetInstructionBreakpoints = arguments(given)?;
        let mut all = Vec::new();
        for b in set.breakpoints {
            let at = crate::memory::address(&b.instruction_reference, b.offset);
            all.push(at.map(|at| Wanted {
                command: INSERT,
                place: format!("*{at:#x}"),
                name: format!("{at:#x}"),
                condition: b.condition,
                hit: b.hit_condition,
                language: None,
            }));
        }
        self.replace(Group::Instructions, all)
    }

    /// Sets the breakpoints of a group: these and no others. Each has its own answer, also an
    /// invalid one: the client must not lose the others for it.
    pub(crate) fn replace(&mut self, group: Group, wanted: Vec<Result<Wanted, Refusal>>) -> Answer {
        let mut old = self.breakpoints.groups.remove(&group).unwrap_or_default();
        let mut kept = Vec::new();
        let mut shown = Vec::new();
        for wanted in wanted {
            let known = |k: &Kept| wanted.as_ref() == Ok(&k.wanted);
            let one = match old.iter().position(known) {
                Some(at) => Ok(old.swap_remove(at)),
                None => wanted.and_then(|wanted| self.insert(wanted)),
            };
            match one {
                Ok(one) => {
                    shown.push(one.shown.clone());
                    kept.push(one);
                }
                Err(refusal) => {
                    shown.push(json!({ "verified": false, "message": refusal.message }));
                }
            }
        }
        for gone in old {
            self.ask(&format!("-break-delete {}", gone.number))?;
        }
        self.breakpoints.groups.insert(group, kept);
        Ok(json!({ "breakpoints": shown }))
    }

    fn insert(&mut self, wanted: Wanted) -> Result<Kept, Refusal> {
        let ignored = match &wanted.hit {
            Some(hit) => ignored(hit)?,
            None => 0,
        };
        if let Some(language) = wanted.language {
            self.ask(&format!("-gdb-set language {language}"))?;
        }
        let (answer, heard) = self.overhear(&format!("{} {}", wanted.command, wanted.place));
        if wanted.language.is_some() {
            self.ask("-gdb-set language auto")?;
        }
        let answer = answer?;
        let set = match &answer {
            Value::Tuple(fields) => fields.first().map(|f| &f.1),
            _ => None,
        };
        let set = set.ok_or("gdb set nothing")?;
        let number: u32 = set.number("number").ok_or("gdb gave no number")?;
        let finished = self.finish(number, &wanted, ignored);
        if let Err(refusal) = finished {
            self.ask(&format!("-break-delete {number}"))?;
            return Err(refusal);
        }
        let mut shown = self.shown(number, set);
        if shown["verified"] == json!(false) && !heard.trim().is_empty() {
            shown["message"] = json!(heard.trim());
        }
        Ok(Kept {
            wanted,
            number,
            shown,
        })
    }

    /// Sets condition and ignored hits of a breakpoint.
    fn finish(&mut self, number: u32, wanted: &Wanted, ignored: u32) -> Result<(), Refusal> {
        if let Some(condition) = wanted.condition.as_deref().filter(|c| !c.trim().is_empty()) {
            self.ask(&format!("-break-condition {number} {}", quote(condition)))?;
        }
        if ignored > 0 {
            self.ask(&format!("-break-after {number} {ignored}"))?;
        }
        Ok(())
    }

    /// The client's description of a breakpoint of gdb's.
    fn shown(&self, number: u32, set: &Value) -> Json {
        let mut shown = json!({ "id": number, "verified": true });
        if set.get("pending").is_some() {
            shown["verified"] = json!(false);
            shown["message"] = json!("there is no such code yet; a library that comes may have it");
            return shown;
        }
        let place = set.list("locations").first().unwrap_or(set);
        if let Some(line) = place.number::<i64>("line").or(set.number("line")) {
            shown["line"] = json!(self.line_out(line));
            if let Some(source) = source::of(place).or(source::of(set)) {
                shown["source"] = source;
            }
        }
        if let Some(address) = place.text("addr").filter(|a| a.starts_with("0x")) {
            shown["instructionReference"] = json!(address);
        }
        shown
    }

    /// Notes gdb's change of a breakpoint: a library was loaded, or it was hit.
    pub(crate) fn note_breakpoint(&mut self, results: &Value) {
        let Some(set) = results.get("bkpt") else {
            return;
        };
        let Some(number) = set.number::<u32>("number") else {
            return;
        };
        let new = self.shown(number, set);
        let mut all = self.breakpoints.groups.values_mut().flatten();
        let Some(kept) = all.find(|k| k.number == number) else {
            return;
        };
        let differs = |field: &str| kept.shown.get(field) != new.get(field);
        // Watchpoints have no line, and gdb reports their hits as changes.
        if new.get("line").is_some() && (differs("verified") || differs("line")) {
            kept.shown = new.clone();
            let body = json!({ "reason": "changed", "breakpoint": new });
            self.pen.event("breakpoint", body);
        }
    }
}

fn at_line(path: &str, line: i64) -> String {
    format!("--source {} --line {line}", quote(path))
}

/// How often a breakpoint is passed before it counts: `3` and `>= 3` mean from the third time
/// on, `> 3` from the fourth.
fn ignored(hit: &str) -> Result<u32, Refusal> {
    let hit = hit.trim();
    let (digits, passed) = match (hit.strip_prefix(">="), hit.strip_prefix('>')) {
        (Some(rest), _) => (rest, 1),
        (None, Some(rest)) => (rest, 0),
        (None, None) => (hit, 1),
    };
    let number: Option<u32> = digits.trim().parse().ok();
    let ignored = number.and_then(|n| n.checked_sub(passed));
    ignored.ok_or_else(|| {
        format!("'{hit}' is no count of hits: write 3 or >= 3 for the third and all later, > 3")
            .into()
    })
}

/// The path with most last components in common with `path`, if there is exactly one, and it is not
/// `path` itself.
fn alike<'n>(path: &str, names: &[&'n str]) -> Option<&'n str> {
    let common = |name: &str| {
        let parts = path.rsplit('/').zip(name.rsplit('/'));
        parts.take_while(|(a, b)| a == b).count()
    };
    let best = names.iter().map(|n| common(n)).max()?;
    let mut found: Vec<&str> = names
        .iter()
        .filter(|n| common(n) == best)
        .copied()
        .collect();
    found.dedup();
    match found.as_slice() {
        [one] if *one != path => Some(one),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_hits() {
        for (hit, expected) in [("1", 0), ("3", 2), (">=3", 2), (">= 3", 2), (" > 3 ", 3)] {
            assert_eq!(ignored(hit), Ok(expected), "{hit}");
        }
        for wrong in ["", "0", "x", "% 2", "== 3", "-1", ">"] {
            assert!(ignored(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_are_told_by_their_last_parts() {
        let names = ["/build/a/main.c", "/build/b/main.c"];
        assert_eq!(alike("/home/me/b/main.c", &names), Some(names[1]));
        assert_eq!(alike("/home/me/c/main.c", &names), None);
        assert_eq!(alike("/build/a/main.c", &names), None);
        assert_eq!(alike("main.c", &names[..1]), Some(names[0]));
        assert_eq!(alike("main.c", &[]), None);
    }
}
