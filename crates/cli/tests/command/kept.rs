//! Files kept from run to run: translations, and copies of mapped files.

use std::collections::BTreeMap;
use std::fs::{File, FileTimes};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::sandbox::Sandbox;

/// Inodes by name.
fn inodes(folder: &Path) -> BTreeMap<String, u64> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap())
        .map(|e| {
            let name = e.file_name().into_string().unwrap();
            (name, e.metadata().unwrap().ino())
        })
        .collect()
}

fn code_files(cache: &Path) -> usize {
    inodes(cache)
        .keys()
        .filter(|n| n.ends_with(".code"))
        .count()
}

#[test]
fn a_library_is_copied_into_the_first_trace_and_linked_into_the_second() {
    let sandbox = Sandbox::new();
    for name in ["first", "second"] {
        sandbox.relive(&["record", "-o", name, "/bin/true"]).ok();
        sandbox.relive(&["verify", name]).ok();
    }
    let [first, second] = ["first", "second"].map(|n| inodes(&sandbox.path(n).join("files")));
    assert!(first.len() >= 2, "no program and no loader: {first:?}");
    assert_eq!(first, second);
    let cache = sandbox.path("translations");
    assert_eq!(
        cache.metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    assert!(code_files(&cache) > 0);
}

#[test]
fn nothing_is_kept_if_nothing_is_to_be_kept() {
    let sandbox = Sandbox::new();
    for name in ["first", "second"] {
        let mut command = sandbox.command(&["record", "-o", name, "/bin/true"]);
        command.env("RELIVE_CACHE_DIR", "");
        crate::sandbox::finish(command).ok();
    }
    let [first, second] = ["first", "second"].map(|n| inodes(&sandbox.path(n).join("files")));
    let names = |m: &BTreeMap<String, u64>| m.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&first), names(&second));
    assert!(first.values().all(|ino| !second.values().any(|i| i == ino)));
}

/// Another user could have put code there.
#[test]
fn a_folder_that_others_can_write_to_is_not_used() {
    let sandbox = Sandbox::new();
    let cache = sandbox.path("translations");
    std::fs::create_dir(&cache).unwrap();
    std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o777)).unwrap();
    sandbox.relive(&["run", "/bin/true"]).ok();
    assert_eq!(code_files(&cache), 0);
    std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o700)).unwrap();
    sandbox.relive(&["run", "/bin/true"]).ok();
    assert_eq!(code_files(&cache), 1);
}

#[test]
fn damaged_translations_are_passed_over() {
    let sandbox = Sandbox::new();
    let cache = sandbox.path("translations");
    let notes = || {
        inodes(&cache)
            .into_keys()
            .filter(|n| n.ends_with(".checked"))
    };
    sandbox.relive(&["run", "/bin/echo", "one"]).ok();
    assert_eq!(notes().count(), 0, "nobody has read it");
    sandbox.relive(&["run", "/bin/echo", "one"]).ok();
    assert_eq!(
        notes().count(),
        1,
        "it has been compared, and that is noted"
    );
    for name in inodes(&cache).keys().filter(|n| n.ends_with(".code")) {
        let path = cache.join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[4096..middle].fill(0xcc);
        std::fs::write(&path, &bytes).unwrap();
        let outcome = sandbox.relive(&["run", "/bin/echo", "two"]).ok();
        assert_eq!(outcome.stdout, "two\n");
        assert_ne!(
            std::fs::read(&path).unwrap(),
            bytes,
            "nothing better was kept"
        );
    }
}

/// The notes on copies, and when each was written.
fn notes(cache: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let note = |name: &String| {
        let path = cache.join("copies").join(name);
        let written = path.metadata().unwrap().modified().unwrap();
        (std::fs::read(path).unwrap(), written)
    };
    let names = inodes(&cache.join("copies")).into_keys();
    names.map(|name| (name.clone(), note(&name))).collect()
}

/// Two recordings of a program, whose copies are noted as good between them, and the notes after the
/// second one.
fn recorded_twice(sandbox: &Sandbox) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let record = |name| sandbox.relive(&["record", "-o", name, "/bin/true"]).ok();
    record("first");
    // As if the copies had been made a while ago.
    let past = SystemTime::now() - Duration::from_secs(100);
    for name in inodes(&sandbox.path("first/files")).keys() {
        let copy = sandbox.path("first/files").join(name);
        let copy = File::options().write(true).open(copy).unwrap();
        copy.set_times(FileTimes::new().set_modified(past)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(20));
    sandbox.relive(&["replay", "first"]).ok();
    let cache = sandbox.path("translations");
    let before = notes(&cache);
    let copies = inodes(&sandbox.path("first/files"));
    assert_eq!(before.len(), copies.len(), "{before:?}");
    record("second");
    assert_eq!(inodes(&sandbox.path("second/files")), copies);
    let after = notes(&cache);
    for (name, (text, _)) in &before {
        assert_ne!(text, &after[name].0, "the copy's times have moved");
    }
    after
}

/// A replay that hashes a copy because no note of it holds writes one.
#[test]
fn copies_that_have_been_hashed_are_not_hashed_again_after_another_recording() {
    let sandbox = Sandbox::new();
    let noted = recorded_twice(&sandbox);
    for trace in ["second", "first"] {
        sandbox.relive(&["replay", trace]).ok();
        assert_eq!(notes(&sandbox.path("translations")), noted);
    }
}

#[test]
fn a_copy_that_is_changed_after_another_recording_is_noticed() {
    let sandbox = Sandbox::new();
    recorded_twice(&sandbox);
    let name = inodes(&sandbox.path("second/files")).into_keys().next();
    let copy = sandbox.path("second/files").join(name.unwrap());
    let file = File::options().write(true).open(&copy).unwrap();
    let before = file.metadata().unwrap();
    file.write_all_at(b"X", before.len() - 1).unwrap();
    let times = FileTimes::new().set_modified(before.modified().unwrap());
    file.set_times(times).unwrap();
    let after = file.metadata().unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
    for trace in ["second", "first"] {
        sandbox.relive(&["replay", trace]).refused("damaged");
    }
}
