//! What is kept from run to run: translations, and copies of mapped files.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

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

/// Somebody else could have put code there.
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
