//! `backtrace`, and names for `last-write` and `calls`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::sandbox::{Sandbox, text};

/// Compiles the program that crashes, records it, and takes program and source away.
pub fn crashed(sandbox: &Sandbox, options: &[&str], argument: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/crash.cc");
    let program = sandbox.path("crash");
    let copy = sandbox.path("crash.cc");
    std::fs::copy(source, &copy).unwrap();
    let compiled = Command::new("c++")
        .args(["-O1", "-pthread", "-fno-optimize-sibling-calls"])
        .args(options)
        .arg("-o")
        .args([&program, &copy])
        .status();
    assert!(compiled.unwrap().success());
    let words: Vec<&str> = ["record", "./crash"]
        .iter()
        .chain(argument)
        .copied()
        .collect();
    assert_eq!(sandbox.relive(&words).signal(), Some(11));
    std::fs::remove_file(program).unwrap();
    std::fs::remove_file(copy).unwrap();
}

/// The functions of a backtrace's frames, without inlined ones.
fn functions(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| line.starts_with('#') && !line.contains("(inlined)"))
        .filter_map(|line| line.split_once("0x")?.1.split_once(' '))
        .map(|(_, rest)| rest.split([' ', '+']).next().unwrap_or(rest))
        .collect()
}

#[test]
fn a_crash_shows_its_calls_with_lines_although_the_program_is_gone() {
    let sandbox = Sandbox::new();
    crashed(&sandbox, &["-g"], &[]);
    let text = sandbox.relive(&["backtrace", "--at", "crash"]).ok().stdout;
    assert!(text.contains("poke (inlined) at "), "{text}");
    assert!(text.contains("crash.cc:17"), "{text}");
    let calls = functions(&text);
    let fall = "deep::Box::fall(int)";
    assert_eq!(
        calls[..5],
        [fall, fall, fall, fall, "work(void*)"],
        "{text}"
    );
    // All threads: the first one waits for the other.
    let text = sandbox
        .relive(&["backtrace", "--at", "crash", "--all"])
        .ok()
        .stdout;
    assert!(functions(&text).contains(&"main"), "{text}");
}

#[test]
fn a_stack_goes_on_below_a_signal() {
    let sandbox = Sandbox::new();
    crashed(&sandbox, &["-g"], &["x"]);
    let text = sandbox
        .relive(&["backtrace", "--at", "crash", "--json"])
        .ok()
        .stdout;
    let found: Value = serde_json::from_str(&text).unwrap();
    let frames = found["threads"][0]["frames"].as_array().unwrap();
    let names: Vec<&str> = frames
        .iter()
        .map(|frame| frame["symbol"].as_str().unwrap_or("??"))
        .collect();
    let handler = names.iter().position(|name| *name == "on_signal(int)");
    let main = names.iter().position(|name| *name == "main");
    assert!(handler.is_some() && handler < main, "{names:?}");
    let line = &frames[main.unwrap()]["lines"][0];
    assert!(
        line["file"].as_str().unwrap().ends_with("crash.cc"),
        "{line}"
    );
    assert!(frames.iter().skip(1).all(|f| f["found_by"] == "tables"));
}

#[test]
fn without_debug_information_there_are_names_and_without_names_addresses() {
    let sandbox = Sandbox::new();
    crashed(&sandbox, &[], &[]);
    let text = sandbox.relive(&["backtrace", "--at", "crash"]).ok().stdout;
    let fall = "deep::Box::fall(int)";
    assert_eq!(functions(&text)[..2], [fall, fall], "{text}");
    crashed(&sandbox, &["-s"], &[]);
    let text = sandbox.relive(&["backtrace", "--at", "crash"]).ok().stdout;
    let frames = text.lines().filter(|line| line.contains("?? in ")).count();
    assert_eq!(frames, 5, "{text}");
}

#[test]
fn queries_take_names() {
    let sandbox = Sandbox::new();
    crashed(&sandbox, &["-g"], &[]);
    let text = sandbox
        .relive(&["last-write", "--var", "box", "--json"])
        .ok()
        .stdout;
    let write: Value = serde_json::from_str(&text).unwrap();
    // 3 + 2 + 1 + 0, the last one just before the crash.
    assert_eq!(write["after"], "0600000000000000", "{text}");
    assert_eq!(write["code"]["symbol"], "deep::Box::fall(int)", "{text}");
    let text = sandbox.relive(&["calls", "triple", "--json"]).ok().stdout;
    let calls: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let results: Vec<_> = calls.iter().map(|call| &call["result"]).collect();
    assert_eq!(results, [3, 15], "{text}");
    assert_eq!(calls[0]["caller"]["symbol"], "main", "{text}");
    // A function of a library, which is not there when the program begins.
    let text = sandbox.relive(&["calls", "pthread_join"]).ok().stdout;
    assert_eq!(text.lines().count(), 1, "{text}");
    let text = sandbox.relive(&["calls", "deep::Box::fall"]).ok().stdout;
    assert_eq!(text.lines().count(), 4, "{text}");
    sandbox
        .relive(&["calls", "no_such_function"])
        .refused("no function no_such_function");
    sandbox
        .relive(&["last-write", "--var", "triple"])
        .refused("no variable triple");
    let neither = sandbox.relive(&["last-write"]);
    assert_eq!(neither.code(), Some(2));
}

#[test]
fn a_write_has_the_names_of_the_program_that_made_it() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/replaced.c");
    let program = sandbox.compile(&source, "replaced");
    sandbox.relive(&["record", text(&program)]).ok();
    let words = ["last-write", "--addr", "0x20000000", "--json"];
    let write = sandbox.relive(&words).ok().stdout;
    let write: Value = serde_json::from_str(&write).unwrap();
    assert_eq!(write["after"], "0500000000000000", "{write:#}");
    assert_eq!(write["code"]["symbol"], "writer", "{write:#}");
}
