//! Going along a recording in both directions: whatever is done on the way, positions and the
//! end stay the same.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::sandbox::{Sandbox, finish};

/// A recorded program with the addresses that it printed.
struct Recorded {
    sandbox: Sandbox,
    shared: String,
    text: String,
    bump: String,
    /// A map of a file, shared.
    mapped: String,
}

impl Recorded {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/travel.c");
        let program = sandbox.compile(&source, "travel");
        let path = program.to_str().unwrap();
        let outcome = sandbox.relive(&["record", path]);
        assert_eq!(outcome.code(), Some(7), "{outcome:#?}");
        let mut addresses = outcome.stdout.lines().next().unwrap().split(' ');
        let mut next = || addresses.next().unwrap().to_owned();
        let (shared, text, bump) = (next(), next(), next());
        let mapped = outcome
            .stdout
            .trim_end()
            .rsplit(' ')
            .next()
            .unwrap()
            .to_owned();
        Self {
            sandbox,
            shared,
            text,
            bump,
            mapped,
        }
    }

    /// The answers to these orders.
    fn travel(&self, words: &[&str], orders: &[&str]) -> Vec<String> {
        self::orders(&self.sandbox, words, orders)
    }

    fn json(&self, words: &[&str]) -> Vec<Value> {
        let outcome = self.sandbox.relive(words).ok();
        let lines = outcome.stdout.lines();
        lines.map(|l| serde_json::from_str(l).unwrap()).collect()
    }
}

/// The answers of `relive travel` to these orders.
pub fn orders(sandbox: &Sandbox, words: &[&str], orders: &[&str]) -> Vec<String> {
    let mut command = sandbox.command(&[&["travel"], words].concat());
    let path = sandbox.path("orders");
    std::fs::write(&path, orders.join("\n")).unwrap();
    command.stdin(Stdio::from(std::fs::File::open(path).unwrap()));
    let outcome = finish(command).ok();
    let answers: Vec<String> = outcome.stdout.lines().map(str::to_owned).collect();
    assert_eq!(answers.len(), orders.len(), "{outcome:#?}");
    answers
}

/// A field `name=value` of an answer.
fn field<'a>(answer: &'a str, name: &str) -> &'a str {
    let start = answer.find(&format!(" {name}=")).expect(answer) + name.len() + 2;
    answer[start..].split(' ').next().unwrap()
}

/// Position and pc of an answer.
pub fn place(answer: &str) -> [&str; 4] {
    ["event", "tick", "thread", "pc"].map(|name| field(answer, name))
}

#[test]
fn a_disturbed_replay_ends_as_an_undisturbed_one() {
    let recorded = Recorded::new();
    let [plain, _] = &recorded.travel(&[], &["end", "checksum"])[..] else {
        panic!()
    };
    let end = plain.clone();
    let sum = recorded.travel(&[], &["end", "checksum"])[1].clone();
    let (shared, bump) = (&recorded.shared, &recorded.bump);
    let stop = format!("break {bump}");
    let watch = format!("watch {shared} 4");
    for events in [30, 60, 90, 120] {
        let goto = format!("event {events}");
        let mut orders = vec![goto.as_str(), "step 17", &stop, "continue", "continue"];
        orders.extend([
            "back", "back", "step 3", &watch, "continue", "continue", "reverse",
        ]);
        orders.extend(["reverse", "back", "clear", "signals", "continue", "clear"]);
        orders.extend(["end", "checksum", "start", "end", "checksum"]);
        let answers = recorded.travel(&[], &orders);
        let n = answers.len();
        assert_eq!(
            (&answers[n - 1], &answers[n - 2]),
            (&sum, &end),
            "{answers:#?}"
        );
        assert_eq!(
            (&answers[n - 4], &answers[n - 5]),
            (&sum, &end),
            "{answers:#?}"
        );
    }
    // With fragments of one instruction the positions are the same.
    let mut command = recorded.sandbox.command(&["travel"]);
    command.env("RELIVE_FRAGMENT_INSNS", "1");
    let path = recorded.sandbox.path("orders");
    std::fs::write(&path, "end\nchecksum\n").unwrap();
    command.stdin(Stdio::from(std::fs::File::open(path).unwrap()));
    let tiny = finish(command).ok().stdout;
    assert_eq!(tiny, format!("{end}\n{sum}\n"));
}

#[test]
fn steps_back_are_steps_forward_in_reverse() {
    let recorded = Recorded::new();
    let stop = format!("break {}", recorded.bump);
    for way in [&["event 20"][..], &[&stop, "continue", "continue", "clear"]] {
        const N: usize = 40;
        let mut orders = way.to_vec();
        orders.push("where");
        orders.extend(["step"; N]);
        orders.extend(["back"; N]);
        let answers = recorded.travel(&[], &orders);
        let walk: Vec<[&str; 4]> = answers[way.len()..].iter().map(|a| place(a)).collect();
        for k in 0..N {
            assert_eq!(walk[k], walk[2 * N - k], "step {k}: {answers:#?}");
        }
    }
}

#[test]
fn breakpoints_are_found_from_both_sides() {
    let recorded = Recorded::new();
    let stop = format!("break {}", recorded.bump);
    let read = format!("read {} 4", recorded.mapped);
    let (on, back) = (["continue", &read], ["reverse", &read]);
    let orders = [&["event 10", &stop][..], &on, &on, &on, &back, &back, &back].concat();
    let answers = recorded.travel(&[], &orders);
    let [
        _,
        _,
        a,
        in_a,
        b,
        in_b,
        _,
        _,
        from_b,
        again_b,
        from_a,
        again_a,
        start,
        _,
    ] = &answers[..]
    else {
        panic!("{answers:#?}")
    };
    assert_eq!((place(from_b), place(from_a)), (place(b), place(a)));
    // Memory that is mapped shared belongs to each copy of the replay alone.
    assert_eq!((again_b, again_a), (in_b, in_a), "{answers:#?}");
    assert_ne!(in_a, in_b);
    assert!(start.starts_with("Start "), "{answers:#?}");
}

#[test]
fn the_last_write_is_the_one_that_is_seen() {
    let recorded = Recorded::new();
    let words = [
        "last-write",
        "--len",
        "4",
        "--json",
        "--addr",
        &recorded.shared,
    ];
    let found = &recorded.json(&words)[0];
    let read = format!("read {} 4", recorded.shared);
    let end = recorded.travel(&[], &["end", &read]);
    assert_eq!(found["after"], Value::from(end[1].as_str()));
    assert_ne!(found["before"], found["after"]);
    assert_ne!(found["place"]["thread"], 0);
    // The write of a system call is found too: the pipe's bytes that memmove left alone.
    let words = [
        "last-write",
        "--len",
        "5",
        "--json",
        "--addr",
        &recorded.text,
    ];
    let found = &recorded.json(&words)[0];
    assert_eq!(found["by"], "read");
    assert_eq!(found["after"], "66726f6d20");
    // And the last write of memmove, by its own instructions.
    let at = u64::from_str_radix(recorded.text.trim_start_matches("0x"), 16).unwrap() + 9;
    let words = [
        "last-write",
        "--len",
        "1",
        "--json",
        "--addr",
        &format!("{at:#x}"),
    ];
    let found = &recorded.json(&words)[0];
    assert_eq!(found["by"], Value::Null, "{found}");
    assert_eq!(
        (&found["before"], &found["after"]),
        (&"20".into(), &"20".into())
    );
}

#[test]
fn calls_have_arguments_and_results() {
    let recorded = Recorded::new();
    let calls = recorded.json(&["calls", &recorded.bump, "--json"]);
    assert_eq!(calls.len(), 9000);
    for call in &calls {
        assert_eq!(call["arguments"][0].as_u64().unwrap() as u32, 1);
        assert!(call["result"].as_u64().is_some(), "{call}");
    }
    // The child's one, with the child's memory.
    let calls = recorded.json(&["calls", &recorded.bump, "--json", "--process", "1"]);
    assert_eq!(calls.len(), 1, "{calls:#?}");
    assert_eq!(calls[0]["arguments"][0], 41);
    assert_eq!(calls[0]["result"], 41);
    assert_eq!(calls[0]["place"]["process"], 1);
}

#[test]
fn parts_of_a_replay_write_their_part_of_the_output() {
    let recorded = Recorded::new();
    let whole = recorded.sandbox.relive(&["replay"]);
    let events: u64 = field(&recorded.travel(&[], &["end"])[0], "event")
        .parse()
        .unwrap();
    let middle = (events - 20).to_string();
    let first = recorded.sandbox.relive(&["replay", "--to", &middle]).ok();
    let second = recorded.sandbox.relive(&["replay", "--from", &middle]);
    assert_eq!(second.code(), Some(7));
    assert_eq!(format!("{}{}", first.stdout, second.stdout), whole.stdout);
    assert!(
        second.stdout.len() > 4 && first.stdout.len() > 4,
        "{first:?} {second:?}"
    );
    // The child alone, which is another process and writes nothing.
    let child = recorded.sandbox.relive(&["replay", "--process", "1"]);
    assert_eq!((child.code(), child.stdout.as_str()), (Some(7), ""));
}

#[test]
fn snapshots_are_kept_and_go_on_side_by_side() {
    let recorded = Recorded::new();
    let stop = format!("break {}", recorded.bump);
    // At an event, at another, and between two instructions of one of several threads.
    let orders = [
        "event 20", "keep", "event 60", "keep", &stop, "continue", "continue", "step 5", "keep",
        "where", "race", "where", "kept 1", "step 3", "kept 2", "kept 3", "drop 2", "race",
        "clear", "end", "checksum",
    ];
    let answers = recorded.travel(&[], &orders);
    assert_eq!([&answers[1], &answers[3], &answers[8]], ["1", "2", "3"]);
    let sum = answers.last().unwrap();
    let one = format!("Ended {sum}");
    assert_eq!(answers[10], [&one[..]; 3].join(", "), "{answers:#?}");
    assert_eq!(answers[17], [&one[..]; 2].join(", "), "{answers:#?}");
    // The copies disturbed nothing, and each place is where it was.
    assert_eq!(answers[9], answers[11]);
    for (kept, there) in [(12, 0), (14, 2), (15, 9)] {
        assert_eq!(
            place(&answers[kept]),
            place(&answers[there]),
            "{answers:#?}"
        );
    }
}

#[test]
fn a_snapshot_from_before_the_first_shared_map_does_not_see_later_ones() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/shared_late.c");
    let program = sandbox.compile(&source, "shared_late");
    sandbox.relive(&["record", program.to_str().unwrap()]).ok();
    let there = |events: &[&str]| {
        let goto: Vec<String> = events.iter().map(|e| format!("event {e}")).collect();
        let words: Vec<&str> = goto.iter().map(String::as_str).collect();
        orders(
            &sandbox,
            &[],
            &[&words[..], &["checksum", "end", "checksum"]].concat(),
        )
    };
    let last = |answers: Vec<String>| answers[answers.len() - 4..].to_vec();
    for events in [
        ["20", "900", "200"],
        ["60", "1000", "130"],
        ["150", "700", "20"],
    ] {
        assert_eq!(
            last(there(&events)),
            last(there(&events[2..])),
            "{events:?}"
        );
    }
}

#[test]
fn a_watched_megabyte_and_hundreds_of_watched_words() {
    let recorded = Recorded::new();
    let shared = u64::from_str_radix(recorded.shared.trim_start_matches("0x"), 16).unwrap();
    let one = format!("watch {shared} 4");
    let found = |watches: &[String]| {
        let mut orders = vec!["event 90"];
        orders.extend(watches.iter().map(String::as_str));
        orders.extend(["continue", "continue", "continue", "reverse", "reverse"]);
        orders.extend(["clear", "end", "checksum"]);
        let answers = recorded.travel(&[], &orders);
        let behind = &answers[1 + watches.len()..];
        let places: Vec<Vec<String>> = behind[..5]
            .iter()
            .map(|a| place(a).map(str::to_owned).to_vec())
            .collect();
        assert!(
            behind.iter().take(5).all(|a| a.starts_with("Hit")),
            "{behind:#?}"
        );
        (places, behind[7].clone())
    };
    let alone = found(std::slice::from_ref(&one));
    // Words of the stack of the first thread, which nothing writes so far below its top.
    let base = 0x4fff_ff80_0000_u64;
    let mut many: Vec<String> = (0..300)
        .map(|i| format!("watch {} 8", base + 64 * i))
        .collect();
    many.push(one.clone());
    assert_eq!(found(&many), alone);
    let wide = [format!("watch {base} {}", 1 << 20), one];
    assert_eq!(found(&wide), alone);
}
