//! `pack` and `unpack`.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use crate::backtrace::crashed;
use crate::sandbox::{Sandbox, finish};

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
fn the_order_that_a_first_replay_has_found_is_packed() {
    let here = Sandbox::new();
    here.relive(&["record", "--mode", "sketch", "-o", "drawn", "true"])
        .ok();
    here.relive(&["replay", "drawn"]).ok();
    // What a search that was interrupted has noted is no part of the recording.
    std::fs::write(here.path("drawn/explored"), "{}\n").unwrap();
    here.relive(&["pack", "-o", "drawn.tar.zst", "drawn"]).ok();
    here.relive(&["unpack", "drawn.tar.zst", "-o", "again"])
        .ok();
    let exact = |name: &str| walk(&here.path(name).join("exact")).len();
    assert!(exact("drawn") > 0);
    assert_eq!(exact("again"), exact("drawn"));
    here.relive(&["verify", "again"]).ok();
}

/// Debug information has no checksum of its own: that of the whole file tells.
#[test]
fn a_changed_bit_is_noticed_wherever_it_is() {
    let here = Sandbox::new();
    crashed(&here, &["-g"], &["x"]);
    here.relive(&["pack", "-o", "race.tar.zst"]).ok();
    let whole = std::fs::read(here.path("race.tar.zst")).unwrap();
    for part in 1..16 {
        let mut changed = whole.clone();
        changed[whole.len() * part / 16] ^= 16;
        std::fs::write(here.path("bad.tar.zst"), changed).unwrap();
        let unpacked = here.relive(&["unpack", "bad.tar.zst", "-o", "again"]);
        assert_eq!(unpacked.code(), Some(125), "part {part}: {unpacked:#?}");
        assert!(!here.path("again").exists(), "part {part}");
    }
}

/// The names in the sandbox's folder.
fn entries(sandbox: &Sandbox) -> Vec<String> {
    let all = std::fs::read_dir(sandbox.path("")).unwrap();
    let mut names: Vec<String> = all
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_signal_leaves_nothing_half_done() {
    let here = Sandbox::new();
    crashed(&here, &["-g"], &["x"]);
    here.relive(&["pack", "-o", "race.tar.zst"]).ok();
    let before = entries(&here);
    let mut ended = 0;
    for words in [
        &["pack", "-o", "other.tar.zst"][..],
        &["unpack", "race.tar.zst", "-o", "again"],
    ] {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            let mut child = here.command(words).spawn().unwrap();
            // Once it has begun, or is done.
            while entries(&here) == before && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            // SAFETY: it is this test's child, which has not been waited for.
            unsafe { libc::kill(child.id() as i32, signal) };
            match child.wait().unwrap().signal() {
                Some(by) => {
                    assert_eq!(by, signal, "{words:?}");
                    assert_eq!(entries(&here), before, "{words:?} {signal}");
                    ended += 1;
                }
                // It was faster.
                None => {
                    let _ = std::fs::remove_file(here.path("other.tar.zst"));
                    let _ = std::fs::remove_dir_all(here.path("again"));
                }
            }
        }
    }
    assert!(ended > 0, "no signal came in time");
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

/// Names of the entries of a folder.
fn names(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<String> = all
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    all.sort();
    all
}

#[test]
fn a_packed_recording_is_used_as_it_is() {
    let here = Sandbox::new();
    crashed(&here, &["-g"], &[]);
    here.relive(&["pack", "-o", "race.tar.zst"]).ok();
    let there = Sandbox::new();
    std::fs::copy(here.path("race.tar.zst"), there.path("race.tar.zst")).unwrap();
    drop(here);
    let cache = there.path("kept");
    let relive = |words: &[&str]| {
        let mut command = there.command(words);
        command.env("RELIVE_CACHE_DIR", &cache);
        finish(command)
    };
    assert_eq!(relive(&["replay", "race.tar.zst"]).signal(), Some(11));
    let unpacked = names(&cache.join("unpacked"));
    assert_eq!(unpacked.len(), 1, "{unpacked:?}");
    let text = relive(&["backtrace", "race.tar.zst", "--at", "crash"])
        .ok()
        .stdout;
    assert!(text.contains("crash.cc:17"), "{text}");
    let text = relive(&["last-write", "./race.tar.zst", "--var", "box"])
        .ok()
        .stdout;
    assert!(text.contains("box = "), "{text}");
    // Once for all, and no recording among the others.
    assert_eq!(names(&cache.join("unpacked")), unpacked);
    assert!(there.recordings().is_empty());
    // Another file of that name is another recording.
    let other = Sandbox::new();
    other.relive(&["record", "sh", "-c", "echo other"]).ok();
    other.relive(&["pack", "-o", "race.tar.zst"]).ok();
    std::fs::copy(other.path("race.tar.zst"), there.path("race.tar.zst")).unwrap();
    assert_eq!(relive(&["replay", "race.tar.zst"]).ok().stdout, "other\n");
    // A damaged file, and one that is no recording, leave nothing.
    let bytes = std::fs::read(there.path("race.tar.zst")).unwrap();
    std::fs::write(there.path("bad.tar.zst"), &bytes[..bytes.len() / 2]).unwrap();
    relive(&["replay", "bad.tar.zst"]).refused("bad.tar.zst cannot be unpacked");
    std::fs::write(there.path("text"), "no recording").unwrap();
    relive(&["replay", "./text"]).refused("is a file and no recording");
    assert_eq!(names(&cache.join("unpacked")).len(), 2);
    let mut command = there.command(&["replay", "race.tar.zst"]);
    command.env("RELIVE_CACHE_DIR", "");
    finish(command).refused("unpack it first with relive unpack");
}

/// Debug information in other files goes along, whatever its form, and gdb shows sources.
#[test]
fn debug_information_and_sources_of_all_forms_go_along() {
    let forms: [(&[&str], &[&[&str]]); 3] = [
        (&["-gsplit-dwarf"], &[]),
        (
            &[],
            &[
                &["objcopy", "--only-keep-debug", "whole", "whole.debug"],
                &[
                    "objcopy",
                    "--strip-all",
                    "--add-gnu-debuglink=whole.debug",
                    "whole",
                ],
            ],
        ),
        (&["-gz", "-no-pie"], &[]),
    ];
    for (options, tools) in forms {
        let here = Sandbox::new();
        let source = "int level;\nvoid rise(int by) {\n    level += by;\n}\n\
            int main(void) {\n    rise(3);\n    return level;\n}\n";
        std::fs::write(here.path("whole.c"), source).unwrap();
        let run = |words: &[&str]| {
            let mut command = std::process::Command::new(words[0]);
            command.args(&words[1..]).current_dir(here.path(""));
            assert!(command.status().unwrap().success(), "{words:?}");
        };
        run(&[&["cc", "-g", "-o", "whole", "whole.c"], options].concat());
        tools.iter().for_each(|words| run(words));
        assert_eq!(here.relive(&["record", "./whole"]).code(), Some(3));
        here.relive(&["pack", "-o", "whole.tar.zst"]).ok();
        let there = Sandbox::new();
        std::fs::copy(here.path("whole.tar.zst"), there.path("whole.tar.zst")).unwrap();
        // Everything that it was made of is gone.
        drop(here);
        there.relive(&["unpack", "whole.tar.zst"]).ok();
        let text = there.relive(&["last-write", "--var", "level"]).ok().stdout;
        assert!(
            text.contains("whole.c:3") && text.ends_with("level = 0 -> 3\n"),
            "{options:?} {text}"
        );
        let text = there.relive(&["calls", "rise"]).ok().stdout;
        assert!(text.contains("(by=3) = nothing, called by main"), "{text}");
        let words = [
            "debug",
            "--at",
            "start",
            "--",
            "-batch",
            "-ex",
            "break rise",
            "-ex",
            "continue",
            "-ex",
            "info args",
            "-ex",
            "list 3,3",
        ];
        let text = there.relive(&words).stdout;
        assert!(text.contains("by = 3"), "{options:?} {text}");
        assert!(text.contains("level += by;"), "{options:?} {text}");
    }
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

/// Names and text of a stranger's recording are no commands to a terminal.
#[test]
fn a_terminal_gets_no_commands_from_a_stranger() {
    let sandbox = Sandbox::new();
    let clean = |text: &str| !text.contains(|c: char| c.is_control() && c != '\n');
    for name in [
        "x/\x1b]0;owned\x07",
        "x/\u{9b}2J",
        "x/a\nrelive: all is well",
    ] {
        archive(&sandbox.path("bad.tar.zst"), name, tar::EntryType::Regular);
        let outcome = sandbox.relive(&["unpack", "bad.tar.zst"]);
        assert!(clean(&outcome.stderr), "{outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
        outcome.refused("no part of a recording");
    }
    sandbox
        .relive(&["record", "sh", "-c", "exit 0", "\x1b[2J\u{9b}2J"])
        .ok();
    // The manifest's own fields, too.
    let path = sandbox.base().join("sh-0/manifest.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    let at = whole.find("\"features\": [").unwrap() + "\"features\": [".len();
    let forged = format!("{}\"\\u001b[2J\\u009b2J\", {}", &whole[..at], &whole[at..]);
    std::fs::write(&path, forged).unwrap();
    for words in [
        &["ls"][..],
        &["ls", "--json"],
        &["info"],
        &["info", "--json"],
        &["dump"],
        &["dump", "--json"],
        &["replay"],
        &["verify"],
    ] {
        let outcome = sandbox.relive(words);
        assert!(clean(&outcome.stdout), "{words:?} {outcome:?}");
        assert!(clean(&outcome.stderr), "{words:?} {outcome:?}");
    }
    // A recording that cannot be read says why, in the words of its manifest.
    let forged = whole.replacen("\"relive\"", "\"\\u001b[2J\\u009b2J\"", 1);
    assert_ne!(forged, whole);
    std::fs::write(&path, forged).unwrap();
    for words in [&["ls"][..], &["info"], &["replay"]] {
        let outcome = sandbox.relive(words);
        assert!(clean(&outcome.stdout), "{words:?} {outcome:?}");
        assert!(clean(&outcome.stderr), "{words:?} {outcome:?}");
    }
}

/// Small files that would fill a disk or the memory, and kinds of entries that are none of a
/// recording's.
#[test]
fn archives_that_were_made_to_do_harm_are_refused() {
    use tar::EntryType::{Block, Char, Fifo, GNUSparse, Link, XGlobalHeader, XHeader};
    let sandbox = Sandbox::new();
    let file = sandbox.path("bad.tar.zst");
    for kind in [Block, Char, Fifo, GNUSparse, Link, XGlobalHeader, XHeader] {
        archive(&file, "x/tapes", kind);
        sandbox
            .relive(&["unpack", "bad.tar.zst"])
            .refused("no part of a recording");
    }
    // So much of a file, of a long name, and of words about the next file.
    for (kind, why) in [
        (tar::EntryType::Regular, "larger than"),
        (tar::EntryType::GNULongName, "larger than"),
        (XHeader, "larger than"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..7].copy_from_slice(b"x/tapes");
        header.set_entry_type(kind);
        header.set_size(3 << 30);
        header.set_cksum();
        let mut packed = zstd::Encoder::new(Vec::new(), 1).unwrap();
        std::io::Write::write_all(&mut packed, header.as_bytes()).unwrap();
        std::fs::write(&file, packed.finish().unwrap()).unwrap();
        sandbox.relive(&["unpack", "bad.tar.zst"]).refused(why);
    }
    // A name that leads out, in an entry of its own; and one that comes twice.
    for names in [["x/../../escaped", "x/input"], ["x/tapes", "x/tapes"]] {
        let mut builder = tar::Builder::new(Vec::new());
        for name in names {
            let long = format!("{name}\0");
            for (kind, bytes) in [
                (tar::EntryType::GNULongName, long.as_bytes()),
                (tar::EntryType::Regular, &b"abc"[..]),
            ] {
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(kind);
                header.set_size(bytes.len() as u64);
                header.set_cksum();
                builder.append(&header, bytes).unwrap();
            }
        }
        let bytes = builder.into_inner().unwrap();
        std::fs::write(&file, zstd::encode_all(&bytes[..], 1).unwrap()).unwrap();
        sandbox
            .relive(&["unpack", "bad.tar.zst"])
            .refused("cannot be unpacked");
    }
    assert!(sandbox.recordings().is_empty());
    assert!(!sandbox.base().join("../escaped").exists());
}

/// Names longer than a header has room for.
#[test]
fn sources_in_deep_folders_are_carried() {
    let here = Sandbox::new();
    here.relive(&["record", "-o", "deep", "/bin/true"]).ok();
    let below = "a-folder-with-a-long-name/".repeat(8);
    let folder = here.path("deep").join("sources").join(&below);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("main.c"), "int main;").unwrap();
    here.relive(&["pack", "deep", "-o", "deep.tar.zst"]).ok();
    here.relive(&["unpack", "deep.tar.zst", "-o", "again"]).ok();
    let again = here.path("again").join("sources").join(below);
    assert_eq!(std::fs::read(again.join("main.c")).unwrap(), b"int main;");
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
