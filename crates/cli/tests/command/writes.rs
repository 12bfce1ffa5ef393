//! Watched writes: write-protected pages or a check of each access tell of them, and both must tell of
//! the same, in both directions, whatever writes.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::travel::{orders, place};

/// Most writes to one place that are followed.
const MOST: usize = 48;

/// A place that is written: its name, its address, how often at least.
struct Written {
    name: String,
    addr: u64,
    times: usize,
}

fn record() -> (Sandbox, Vec<Written>) {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/writes.c");
    let program = sandbox.compile(&source, "writes");
    let outcome = sandbox.relive(&["record", program.to_str().unwrap()]).ok();
    let mut all = Vec::new();
    for line in outcome.stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [name, addr, times] = words[..]
            && let Some(addr) = addr.strip_prefix("0x")
        {
            all.push(Written {
                name: name.to_owned(),
                addr: u64::from_str_radix(addr, 16).unwrap(),
                times: times.parse().unwrap(),
            });
        }
    }
    assert_eq!(all.len(), 15, "{}", outcome.stdout);
    (sandbox, all)
}

/// Where the writes to a place are, backwards from the end as far as they are followed, and then
/// forwards again; and the sum over everything at the end. `checked`: each access is checked, as
/// there is a watchpoint that reads hit too.
fn travel(sandbox: &Sandbox, at: &Written, checked: bool) -> (Vec<String>, String) {
    let watch = format!("watch {:#x} 1", at.addr);
    let read = format!("read {:#x} 8", at.addr);
    // The program never touches the page below that of the lowest code.
    let other = ["access 0x20000 1"].iter().filter(|_| checked).copied();
    let mut words = vec!["end", watch.as_str()];
    words.extend(other);
    let from = words.len();
    for way in ["reverse", "continue"] {
        for _ in 0..at.times.min(MOST) {
            words.extend([way, &read]);
        }
    }
    words.extend(["clear", "end", "checksum"]);
    let mut answers = orders(sandbox, &[], &words);
    let sum = answers.pop().unwrap();
    let end = answers.len() - 2;
    let seen = answers[from..end]
        .iter()
        .map(|answer| match answer.starts_with("Hit") {
            true => place(answer).join(" "),
            false => answer.clone(),
        });
    (seen.collect(), sum)
}

#[test]
fn write_protection_tells_of_the_same_writes_as_checks() {
    let (sandbox, all) = record();
    let plain = orders(&sandbox, &[], &["end", "checksum"]).pop().unwrap();
    for at in &all {
        let name = &at.name;
        let (protected, sum) = travel(&sandbox, at, false);
        let (checked, same) = travel(&sandbox, at, true);
        assert_eq!(protected, checked, "{name}");
        assert_eq!((&sum, &same), (&plain, &plain), "{name}");
        let hits = protected
            .iter()
            .step_by(2)
            .filter(|a| !a.starts_with("Start"));
        assert!(hits.count() >= at.times, "{name}: {protected:#?}");
        // The last one is found on the way to the end, too.
        let address = format!("{:#x}", at.addr);
        let words = ["last-write", "--json", "--len", "1", "--addr", &address];
        let text = sandbox.relive(&words).ok().stdout;
        let found: Value = serde_json::from_str(&text).unwrap();
        let place = &found["place"];
        let [event, tick, thread, pc] =
            ["event", "tick", "thread", "pc"].map(|name| place[name].as_u64().unwrap());
        let shown = format!("{event} {tick} {thread} {pc:#x}");
        assert_eq!(shown, last_before(&sandbox, at), "{name}: {found}");
    }
}

/// Where the last write to a place is about to happen.
fn last_before(sandbox: &Sandbox, at: &Written) -> String {
    let watch = format!("watch {:#x} 1", at.addr);
    let words = ["end", "access 0x20000 1", &watch, "reverse"];
    place(&orders(sandbox, &[], &words)[3]).join(" ")
}
