//! The first replay of a sketch, as a whole and by epochs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use relive_trace::{Encoder, Event, Kind, TapeId, Trace, TraceWriter};

use crate::sandbox::{Sandbox, finish, text};

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(status.expect("cp").success());
}

fn together(sandbox: &Sandbox) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/together.c");
    sandbox.compile(&source, "together")
}

/// What becomes of an event.
enum Rewritten {
    Same,
    Gone,
    /// This is in front of it.
    Behind(Kind<'static>),
}

/// Writes the tapes of a recording anew.
fn rewrite(trace: &Path, change: &dyn Fn(TapeId, &Event<'_>) -> Rewritten) {
    let recorded = Trace::open_recorded(trace).unwrap();
    let other = trace.with_extension("other");
    let mut writer = TraceWriter::create(&other, &recorded.manifest().clone().begun()).unwrap();
    let mut encoders: BTreeMap<TapeId, Encoder> = BTreeMap::new();
    for tape in recorded.tapes() {
        let mut reader = recorded.tape(tape.id).unwrap();
        let encoder = encoders.entry(tape.id).or_default();
        while let Some(event) = reader.next().unwrap() {
            let mut bytes = Vec::new();
            match change(tape.id, &event) {
                Rewritten::Same => {}
                Rewritten::Gone => continue,
                Rewritten::Behind(kind) => encoder.encode(&Event { kind, ..event }, &mut bytes),
            }
            encoder.encode(&event, &mut bytes);
            writer.append(tape.id, &bytes).unwrap();
        }
    }
    let written = writer.finish(None).unwrap();
    let manifest = trace.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["tapes_length"] = written.tapes_length.into();
    std::fs::write(&manifest, value.to_string()).unwrap();
    std::fs::rename(other.join("tapes"), trace.join("tapes")).unwrap();
}

/// The end of the last thread that can go on is not the end of the process.
#[test]
fn threads_that_wait_for_each_other_are_no_end() {
    let sandbox = Sandbox::new();
    let program = together(&sandbox);
    let words = ["record", "--mode=sketch", "-o", "sketch"];
    let program = [text(&program), "20", "500"];
    sandbox.relive(&[&words[..], &program].concat()).ok();
    let trace = sandbox.path("sketch");
    // The second thread, for whose end the first one waits, waits for an operation that that one never makes; the last one for
    // nobody.
    let never = Kind::Edge {
        at: 1,
        event: true,
        thread: 0,
        op: 1 << 30,
    };
    rewrite(&trace, &|tape, event| match (tape.thread, &event.kind) {
        (1, Kind::End { .. }) => Rewritten::Behind(never),
        (3, Kind::Edge { .. }) => Rewritten::Gone,
        _ => Rewritten::Same,
    });
    let replayed = sandbox.relive(&["replay", "sketch"]);
    let refused = replayed.refused("[RL2]");
    assert_eq!(refused.stdout, "");
    assert!(!trace.join("exact").exists());
}

/// A child of vfork(2) has a tape of its own, which ends although its host process goes on.
#[test]
fn there_may_be_more_vfork_children_than_tapes_at_once() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/vforks.c");
    let program = sandbox.compile(&source, "vforks");
    let words = ["record", "--mode=sketch", "-o", "sketch", text(&program)];
    sandbox
        .relive(&[&words[..], &["4200", "500"]].concat())
        .ok();
    let replayed = sandbox.relive(&["replay", "sketch"]).ok();
    assert_eq!(replayed.stdout, "4200\n");
}

#[test]
fn a_sketch_with_images_is_found_by_epochs() {
    let sandbox = Sandbox::new();
    let program = together(&sandbox);
    let words = ["record", "--mode=sketch", "--index=0", "-o", "sketch"];
    let recorded = sandbox
        .relive(&[&words[..], &[text(&program), "50", "300"]].concat())
        .ok();
    let images = std::fs::read_dir(sandbox.path("sketch").join("epochs")).unwrap();
    assert!(images.count() > 1, "no image: {recorded:#?}");
    let epochs = |trace: &str| {
        let info = sandbox.relive(&["info", "--json", trace]).ok();
        let value: serde_json::Value = serde_json::from_str(&info.stdout).unwrap();
        value["epochs"].as_u64()
    };
    assert!(epochs("sketch") > Some(1));
    copy(&sandbox.path("sketch"), &sandbox.path("explored"));
    let mut first = sandbox.command(&["replay", "sketch"]);
    first.env("RELIVE_LOG", "linear=info");
    let replayed = finish(first).ok();
    assert!(
        replayed.stderr.contains(" epochs are put together"),
        "{replayed:#?}"
    );
    assert_eq!(replayed.stdout, recorded.stdout);
    assert!(!sandbox.path("sketch").join("epochs.found").exists());
    assert_eq!(epochs("sketch"), Some(1));

    // The images between the epochs are those of its index now.
    let compared = sandbox.relive(&["index", "--compare", "sketch"]).ok();
    assert!(!compared.stdout.contains(": 0 images"), "{compared:#?}");
    sandbox.relive(&["verify", "-j", "2", "sketch"]).ok();

    // A search goes the same way.
    sandbox.relive(&["explore", "explored"]).ok();
    let replayed = sandbox.relive(&["replay", "explored"]).ok();
    assert_eq!(replayed.stdout, recorded.stdout);
    sandbox.relive(&["index", "--compare", "explored"]).ok();
}
