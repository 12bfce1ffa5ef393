//! The stage `split`: parts of a recording, from places inside of it to its end or to another place. Each
//! must verify, and replay the rest of the output. It must never take a refusal for a success that the
//! command does not document.

use std::ffi::OsString;

use serde_json::Value;

use crate::child::{Outcome, Spec};
use crate::workshop::Workshop;

/// Refusals that a place or a recording may meet.
const MAY_REFUSE: [&str; 4] = [
    "share memory",
    "cannot be cut at two places there",
    "has ended there: nothing follows",
    "a child of vfork(2) runs in the memory",
];

/// A part to split off: process, and its events before beginning and end.
type Part = (u64, u64, Option<u64>);

/// Splits parts off a recording for a stage of this name; the output of the whole is known. `relive` gives the child for some of its arguments.
///
/// # Errors
/// The first part that is not right.
pub fn check(
    stage: &str,
    trace: &OsString,
    recorded: &Outcome,
    workshop: &Workshop,
    relive: &dyn Fn(Vec<OsString>) -> Result<Spec, String>,
) -> Result<Outcome, String> {
    let info = relive(vec!["info".into(), "--json".into(), trace.clone()])?.run()?;
    let facts: Value = serde_json::from_slice(&info.stdout).map_err(|e| format!("info: {e}"))?;
    for (n, part) in parts(&facts).into_iter().enumerate() {
        let folder = workshop.trace_dir(&format!("{stage}-{n}"));
        one(trace, recorded, part, folder.into(), relive)
            .map_err(|e| format!("part {n}, {part:?}: {e}"))?;
    }
    Ok(info)
}

/// Of the first process two and a part between them, and of the longest other one.
fn parts(facts: &Value) -> Vec<Part> {
    let all = facts["processes"].as_array().map_or(&[][..], |all| all);
    let events = |process: &Value| -> u64 {
        let threads = process["threads"].as_array().map_or(&[][..], |all| all);
        threads.iter().filter_map(|t| t["events"].as_u64()).sum()
    };
    let Some((first, others)) = all.split_first() else {
        return Vec::new();
    };
    let n = events(first);
    let mut parts = vec![
        (0, n / 3, None),
        (0, 2 * n / 3, None),
        (0, n / 2, Some(3 * n / 4)),
    ];
    // Its own events come behind those of the processes that it comes from.
    let longest = others.iter().max_by_key(|other| events(other));
    parts.extend(longest.and_then(|other| Some((other["process"].as_u64()?, 0, None))));
    parts
}

fn one(
    trace: &OsString,
    recorded: &Outcome,
    (process, from, to): Part,
    folder: OsString,
    relive: &dyn Fn(Vec<OsString>) -> Result<Spec, String>,
) -> Result<(), String> {
    let mut words: Vec<OsString> = vec!["split".into(), trace.clone()];
    let options = [
        ("--process", Some(process)),
        ("--from", Some(from)),
        ("--to", to),
    ];
    for (option, value) in options {
        words.extend(
            value
                .iter()
                .flat_map(|n| [option.into(), n.to_string().into()]),
        );
    }
    words.extend(["-o".into(), folder.clone()]);
    let split = relive(words)?.run()?;
    if !split.status.success() {
        let says = String::from_utf8_lossy(&split.stderr);
        return match MAY_REFUSE.iter().any(|text| says.contains(text)) {
            true => Ok(()),
            false => Err(failed(&split)),
        };
    }
    check_part(folder, to.is_none(), recorded, relive)
}

/// Whether a part verifies, and replays the rest of the output; `to_the_end`: it goes to the program's end.
///
/// # Errors
/// It does not.
pub fn check_part(
    folder: OsString,
    to_the_end: bool,
    recorded: &Outcome,
    relive: &dyn Fn(Vec<OsString>) -> Result<Spec, String>,
) -> Result<(), String> {
    let verified = relive(vec!["verify".into(), folder.clone()])?.run()?;
    if !verified.status.success() {
        return Err(failed(&verified));
    }
    let replayed = relive(vec!["replay".into(), folder])?.run()?;
    let goes_on = |part: &[u8], whole: &[u8]| match to_the_end {
        true => whole.ends_with(part),
        false => part.is_empty() || whole.windows(part.len()).any(|bytes| bytes == part),
    };
    // Relive's own words come first.
    let errors = replayed.stderr.split_inclusive(|b| *b == b'\n');
    let own = errors.take_while(|line| line.starts_with(b"relive: "));
    let own: usize = own.map(<[u8]>::len).sum();
    let ends = !to_the_end || replayed.status == recorded.status;
    match goes_on(&replayed.stdout, &recorded.stdout)
        && goes_on(&replayed.stderr[own..], &recorded.stderr)
        && ends
    {
        true => Ok(()),
        false => Err(format!(
            "it replays something else\n{}\nit writes:\n{}\nof:\n{}",
            failed(&replayed),
            String::from_utf8_lossy(&replayed.stdout),
            String::from_utf8_lossy(&recorded.stdout)
        )),
    }
}

fn failed(outcome: &Outcome) -> String {
    format!(
        "{}\nto repeat:\n  {}\nits stderr ends:\n{}",
        crate::compare::describe(outcome.status),
        outcome.by_hand,
        crate::child::tail(&outcome.stderr)
    )
}
