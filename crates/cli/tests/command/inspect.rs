//! `ls`, `info` and `dump`.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use serde_json::Value;

use crate::sandbox::{Sandbox, wait};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(json).collect()
}

#[test]
fn ls_lists_program_size_length_and_end() {
    let sandbox = Sandbox::new();
    assert!(
        sandbox
            .relive(&["ls"])
            .ok()
            .stdout
            .contains("no recordings")
    );
    assert_eq!(
        json(&sandbox.relive(&["ls", "--json"]).ok().stdout),
        json("[]")
    );
    sandbox.relive(&["record", "sh", "-c", "exit 3"]);
    sandbox.relive(&["record", "sh", "-c", "kill -TERM $$"]);
    let table = sandbox.relive(&["ls"]).ok().stdout;
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 3, "{table}");
    assert!(
        rows[0].contains("NAME") && rows[0].contains("COMMAND"),
        "{table}"
    );
    assert!(
        rows[1].contains("sh-0")
            && rows[1].contains("exit 3")
            && rows[1].contains("sh -c 'exit 3'"),
        "{table}"
    );
    assert!(
        rows[2].starts_with("*  sh-1") && rows[2].contains("SIGTERM"),
        "{table}"
    );
    let all = json(&sandbox.relive(&["ls", "--json"]).ok().stdout);
    assert_eq!(all[0]["exit"]["code"], 3);
    assert_eq!(all[1]["exit"]["signal"], libc::SIGTERM);
    assert_eq!(all[1]["command"], json(r#"["sh", "-c", "kill -TERM $$"]"#));
    assert_eq!(
        (&all[0]["latest"], &all[1]["latest"]),
        (&Value::from(false), &Value::from(true))
    );
    let bytes = |what| all[0][what].as_u64().unwrap();
    assert!(0 < bytes("own_bytes") && bytes("own_bytes") <= bytes("bytes"));
}

#[test]
fn info_counts_processes_threads_and_events() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "sh", "-c", "/bin/true; /bin/echo hi; exit 5"]);
    let page = sandbox.relive(&["info"]).ok().stdout;
    for part in [
        "exit status 5",
        "p0.t0",
        "p1.t0",
        "p2.t0",
        "processor",
        "/true",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let info = json(&sandbox.relive(&["info", "--json"]).ok().stdout);
    assert_eq!(info["complete"], true);
    assert_eq!(info["exit"]["code"], 5);
    let processes = info["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 3, "{info}");
    assert_eq!(processes[0]["end"]["code"], 5);
    assert_eq!(processes[1]["end"]["code"], 0);
    let events: u64 = processes
        .iter()
        .flat_map(|p| p["threads"].as_array().unwrap())
        .map(|t| t["events"].as_u64().unwrap())
        .sum();
    assert!(
        events > 20 && events <= info["events"].as_u64().unwrap(),
        "{info}"
    );
    assert_eq!(
        info["cpu"]["missing"],
        json("[]"),
        "a machine has what it has"
    );
}

#[test]
fn verify_says_how_much_it_compared() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "sh", "-c", "/bin/true"]).ok();
    let info = json(&sandbox.relive(&["info", "--json"]).ok().stdout);
    let compared = |words: &[&str]| {
        let summary = sandbox.relive(words).ok();
        assert_eq!(summary.stderr, "");
        assert!(summary.stdout.starts_with("verified "), "{summary:#?}");
        let counts = ["events", "checksum"].map(|what| {
            let before = summary.stdout.split(what).next().unwrap();
            let digits: String = before
                .rsplit([':', ','])
                .next()
                .unwrap()
                .split_whitespace()
                .collect();
            digits.parse::<u64>().unwrap()
        });
        (counts[0], counts[1])
    };
    let (events, few) = compared(&["verify"]);
    assert!(
        events > 20 && events <= info["events"].as_u64().unwrap(),
        "{events} of {info}"
    );
    let (same, many) = compared(&["verify", "--every", "10"]);
    assert!(same == events && many > few && few > 0, "{many} {few}");
}

#[test]
fn dump_names_calls_arguments_errors_and_signals() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("input"), "a line\n").unwrap();
    let script = "trap : USR1; kill -USR1 $$; cat input no-such-file; exit 6";
    sandbox.relive(&["record", "sh", "-c", script]);
    let dump = sandbox.relive(&["dump"]).ok().stdout;
    for part in [
        "p0.t0            0         @0  started: process ",
        "program /",
        "signal SIGUSR1 code 0 from process ",
        "openat(AT_FDCWD, 0x",
        "O_RDONLY",
        "= -2 ENOENT",
        r#" "a line\n", "#,
        " = 7 [stdout #",
        "process exit 6",
    ] {
        assert!(dump.contains(part), "{part:?} is not in\n{dump}");
    }
    assert!(dump.bytes().all(|b| b == b'\n' || !b.is_ascii_control()));
}

#[test]
fn dump_filters_by_process_thread_and_index() {
    let sandbox = Sandbox::new();
    sandbox
        .relive(&["record", "sh", "-c", "/bin/true; /bin/true"])
        .ok();
    let all = lines(&sandbox.relive(&["dump", "--json"]).ok().stdout);
    let info = json(&sandbox.relive(&["info", "--json"]).ok().stdout);
    assert_eq!(all.len() as u64, info["events"].as_u64().unwrap());
    let second = lines(
        &sandbox
            .relive(&["dump", "--json", "--process", "2"])
            .ok()
            .stdout,
    );
    let expected: Vec<Value> = all
        .iter()
        .filter(|event| event["process"] == 2)
        .cloned()
        .collect();
    assert!(expected.len() > 5 && second == expected);
    let some = lines(
        &sandbox
            .relive(&[
                "dump", "--json", "-p", "0", "-t", "0", "--from", "3", "--to", "5",
            ])
            .ok()
            .stdout,
    );
    let indexes: Vec<u64> = some
        .iter()
        .map(|event| event["index"].as_u64().unwrap())
        .collect();
    assert_eq!(indexes, [3, 4, 5]);
    let text = sandbox
        .relive(&["dump", "-p", "0", "-t", "0", "--from", "3", "--to", "5"])
        .ok()
        .stdout;
    for (line, event) in text.lines().zip(&some) {
        assert!(
            line.ends_with(event["text"].as_str().unwrap()),
            "{line} {event}"
        );
    }
    sandbox
        .relive(&["dump", "--process", "7"])
        .refused("relive info");
    sandbox
        .relive(&["dump", "--from", "5", "--to", "3"])
        .refused("no events from --from to --to");
}

#[test]
fn a_reader_of_a_dump_may_go_away() {
    let sandbox = Sandbox::new();
    sandbox
        .relive(&[
            "record",
            "sh",
            "-c",
            "for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done",
        ])
        .ok();
    let mut child = sandbox
        .command(&["dump", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut byte = [0];
    child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
    let status = wait(&mut child);
    let ended = (status.code(), status.signal());
    assert!(
        ended == (Some(0), None) || ended == (None, Some(libc::SIGPIPE)),
        "{status}"
    );
    let mut complaints = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut complaints)
        .unwrap();
    assert_eq!(complaints, "");
}
