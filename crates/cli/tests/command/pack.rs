//! `pack` and `unpack`.

use std::path::Path;

use crate::backtrace::crashed;
use crate::sandbox::Sandbox;

/// A tar archive with one entry, compressed.
fn archive(path: &Path, name: &str, kind: tar::EntryType) {
    let mut header = tar::Header::new_gnu();
    // Written by hand: the crate itself refuses names that lead out.
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(3);
    header.set_mode(0o644);
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, &b"abc"[..]).unwrap();
    let bytes = builder.into_inner().unwrap();
    std::fs::write(path, zstd::encode_all(&bytes[..], 1).unwrap()).unwrap();
}

#[test]
fn a_packed_recording_is_replayed_elsewhere() {
    let here = Sandbox::new();
    crashed(&here, &["-g"], &["x"]);
    // The source is here again when it is packed.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/crash.cc");
    std::fs::copy(&source, here.path("crash.cc")).unwrap();
    let said = here.relive(&["pack", "-o", "race.tar.zst"]).ok().stdout;
    assert!(said.contains("packed crash-0"), "{said}");
    let again = here.relive(&["pack", "-o", "race.tar.zst"]);
    again.refused("race.tar.zst cannot be written");

    let there = Sandbox::new();
    std::fs::copy(here.path("race.tar.zst"), there.path("race.tar.zst")).unwrap();
    there
        .relive(&["replay", "race.tar.zst"])
        .refused("relive unpack");
    let said = there.relive(&["unpack", "race.tar.zst"]).ok().stdout;
    assert!(said.contains("unpacked as race-0"), "{said}");
    drop(here);
    let replayed = there.relive(&["replay"]);
    assert_eq!(
        (replayed.signal(), replayed.stdout.as_str()),
        (Some(11), "21\n")
    );
    let text = there.relive(&["backtrace", "--at", "crash"]).ok().stdout;
    assert!(text.contains("on_signal(int)"), "{text}");
    let sources = there.base().join("race-0/sources");
    let kept = walk(&sources);
    assert!(
        kept.iter()
            .any(|path| std::fs::read(path).unwrap() == std::fs::read(&source).unwrap()),
        "{kept:?}"
    );
    there
        .relive(&["unpack", "race.tar.zst", "-o", "by-name"])
        .ok();
    assert_eq!(there.relive(&["replay", "by-name"]).signal(), Some(11));
    there
        .relive(&["unpack", "race.tar.zst", "-o", "by-name"])
        .refused("by-name cannot be made");
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(walk(&path));
        } else {
            all.push(path);
        }
    }
    all
}

#[test]
fn what_is_no_recording_is_refused_and_leaves_nothing() {
    use tar::EntryType::{Regular, Symlink};
    let sandbox = Sandbox::new();
    let file = sandbox.path("bad.tar.zst");
    for (name, kind, why) in [
        ("x/../../escaped", Regular, "no part of a recording"),
        ("/escaped", Regular, "no part of a recording"),
        ("x/other", Regular, "no part of a recording"),
        ("x/files/link", Symlink, "no part of a recording"),
        ("x/manifest.json", Regular, "manifest.json"),
    ] {
        archive(&file, name, kind);
        sandbox.relive(&["unpack", "bad.tar.zst"]).refused(why);
        assert!(sandbox.recordings().is_empty(), "{name}");
    }
    assert!(!sandbox.path("escaped").exists());
    std::fs::write(&file, "no archive at all").unwrap();
    sandbox
        .relive(&["unpack", "bad.tar.zst"])
        .refused("cannot be unpacked");
    sandbox
        .relive(&["unpack", "nothing.tar.zst"])
        .refused("cannot be unpacked");
    // A packed recording that was cut on its way.
    sandbox.relive(&["record", "sh", "-c", "echo out"]).ok();
    sandbox.relive(&["pack", "-o", "whole.tar.zst"]).ok();
    let bytes = std::fs::read(sandbox.path("whole.tar.zst")).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() * 3 / 4]).unwrap();
    sandbox
        .relive(&["unpack", "bad.tar.zst"])
        .refused("bad.tar.zst cannot be unpacked");
    assert_eq!(sandbox.recordings(), ["sh-0"]);
}

#[test]
fn a_machine_that_lacks_instruction_sets_says_so() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "sh", "-c", "echo out"]).ok();
    let quiet = sandbox.relive(&["replay"]).ok();
    assert_eq!(quiet.stderr, "");
    // Instructions that no processor has had for many years.
    let path = sandbox.base().join("sh-0/manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let at = text.find("\"features\": [").unwrap() + "\"features\": [".len();
    let text = format!("{}\"xop\", {}", &text[..at], &text[at..]);
    std::fs::write(&path, text).unwrap();
    let replayed = sandbox.relive(&["replay"]).ok();
    assert!(replayed.stderr.contains("lacks xop"), "{replayed:#?}");
    assert_eq!(replayed.stdout, "out\n");
}
