//! `relive races`: racy programs are found out, properly synchronised ones are not accused.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Programs, in `tests/races`.
fn source(name: &str) -> String {
    format!("{}/tests/races/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Compiles a program; `false` if there is no such compiler.
fn compiled(sandbox: &Sandbox, name: &str) -> bool {
    let (stem, kind) = name.split_once('.').unwrap();
    let compiler: &[&str] = match kind {
        "c" => &["cc", "-pthread"],
        "cc" => &["c++", "-pthread", "-std=c++17"],
        _ => &["rustc"],
    };
    let status = Command::new(compiler[0])
        .args(&compiler[1..])
        .args(["-g", "-O1"].iter().filter(|_| kind != "rs"))
        .args(["-g", "-O"].iter().filter(|_| kind == "rs"))
        .arg("-o")
        .arg(sandbox.path(stem))
        .arg(source(name))
        .status();
    match status {
        Ok(status) => status.success(),
        Err(_) => false,
    }
}

/// Records a program, and gives its recording the program's name.
fn recorded(sandbox: &Sandbox, name: &str) -> bool {
    if !compiled(sandbox, name) {
        assert_ne!(Path::new(name).extension().unwrap(), "c", "{name} compiles");
        return false;
    }
    let stem = name.split_once('.').unwrap().0;
    let program = sandbox.path(stem);
    sandbox.relive(&["record", program.to_str().unwrap()]).ok();
    true
}

/// The races of the latest recording.
fn races(sandbox: &Sandbox, more: &[&str]) -> (Option<i32>, Value) {
    let outcome = sandbox.relive(&[&["races", "--json"], more].concat());
    let object = serde_json::from_str(&outcome.stdout);
    (
        outcome.code(),
        object.unwrap_or_else(|_| panic!("{outcome:#?}")),
    )
}

fn variables(object: &Value) -> Vec<String> {
    let all = object["races"].as_array().unwrap().iter();
    all.map(|race| race["variable"]["name"].as_str().unwrap_or("?").to_owned())
        .collect()
}

#[test]
fn races_are_found_in_a_run_that_went_well() {
    for (program, variable) in [
        ("lost_update.c", "counter"),
        ("order_violation.c", "config"),
        ("published_pointer.c", "head"),
        ("flag.c", "done"),
        ("two_locks.c", "text[0]"),
        ("stack_variable.c", "local"),
    ] {
        let sandbox = Sandbox::new();
        recorded(&sandbox, program);
        let (code, object) = races(&sandbox, &[]);
        assert_eq!(code, Some(1), "{program}: {object:#}");
        assert!(
            variables(&object).iter().any(|name| name == variable),
            "{program}: {object:#}"
        );
    }
}

#[test]
fn programs_that_synchronise_are_silent() {
    for program in [
        "synchronised.c",
        "synchronised_cxx.cc",
        "synchronised_rust.rs",
        "handed_over.c",
    ] {
        let sandbox = Sandbox::new();
        if recorded(&sandbox, program) {
            let (code, object) = races(&sandbox, &[]);
            assert_eq!(code, Some(0), "{program}: {object:#}");
        }
    }
}

/// Places of races in an exact recording become those that sketches order.
#[test]
fn places_that_are_learnt_are_ordered_by_the_next_sketch() {
    let sandbox = Sandbox::new();
    assert!(compiled(&sandbox, "flag.c"));
    let program = sandbox.path("flag");
    let record = |mode: &str| {
        let mode = format!("--mode={mode}");
        sandbox
            .relive(&["record", &mode, program.to_str().unwrap()])
            .ok();
    };
    let ordered = || {
        let info = sandbox.relive(&["info", "--json"]).ok();
        let info: Value = serde_json::from_str(&info.stdout).unwrap();
        info["ordered_sites"].as_u64().unwrap()
    };
    record("sketch");
    assert_eq!(ordered(), 0);
    record("coherence");
    let (code, first) = races(&sandbox, &["--learn"]);
    assert_eq!(code, Some(0), "{first}");
    assert!(first["places"].as_u64() > Some(0), "{first}");
    assert_eq!(first["places"], first["new"]);
    let (_, again) = races(&sandbox, &["--learn"]);
    assert_eq!(
        (&again["places"], again["new"].as_u64()),
        (&first["places"], Some(0))
    );
    record("sketch");
    assert!(ordered() > 0);
}

#[test]
fn a_report_has_both_accesses_and_where_they_are() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, "lost_update.c");
    let (_, object) = races(&sandbox, &[]);
    let race = &object["races"][0];
    assert_eq!(race["variable"]["type"], "int", "{object:#}");
    assert_eq!(object["races"].as_array().unwrap().len(), 1, "{object:#}");
    let accesses = race["accesses"].as_array().unwrap();
    let threads: Vec<&Value> = accesses.iter().map(|side| &side["thread"]).collect();
    assert_ne!(threads[0], threads[1], "{object:#}");
    for side in accesses {
        let line = &side["frames"][0]["lines"][0];
        assert_eq!(line["function"], "worker", "{object:#}");
        assert!(line["file"].as_str().unwrap().ends_with("lost_update.c"));
        // Other commands go there.
        let at = side["at"].as_str().unwrap();
        let stack = sandbox.relive(&["backtrace", "--at", at]).ok();
        assert!(stack.stdout.contains("worker"), "{stack:#?}");
    }
    let text = sandbox.relive(&["races"]);
    assert_eq!(text.code(), Some(1));
    for part in [
        "counter (int)",
        "lost_update.c:",
        "debug --at ",
        "\n1 race\n",
    ] {
        assert!(text.stdout.contains(part), "{part}: {text:#?}");
    }
}

#[test]
fn suppressed_races_are_counted_only() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, "lost_update.c");
    let file = sandbox.path("known");
    for (line, covers) in [
        ("function:work*", true),
        ("variable:counter", true),
        ("file:lost_update.c", true),
        ("module:*/other.so\n# function:worker", false),
    ] {
        std::fs::write(&file, line).unwrap();
        let (code, object) = races(&sandbox, &["--suppressions", file.to_str().unwrap()]);
        assert_eq!(code, Some(i32::from(!covers)), "{line}: {object:#}");
        assert_eq!(object["suppressed"].as_u64() > Some(0), covers, "{line}");
    }
    std::fs::write(&file, "race:counter").unwrap();
    sandbox
        .relive(&["races", "-s", file.to_str().unwrap()])
        .refused("is no suppression");
}

#[test]
fn one_thread_has_no_race() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "true"]).ok();
    let outcome = sandbox.relive(&["races"]).ok();
    assert_eq!(outcome.stdout, "no races\n");
}
