//! Names of recordings.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::common;
use relive_trace::*;

fn record(base: &Path, program: &str, created: u64) -> std::path::PathBuf {
    let directory = new_numbered(base, OsStr::new(program)).unwrap();
    let mut manifest = common::manifest();
    manifest.created = created;
    TraceWriter::create(&directory, &manifest).unwrap();
    directory
}

#[test]
fn numbers_go_up_and_names_are_plain() {
    let base = tempfile::tempdir().unwrap();
    let base = &base.path().join("deep/er");
    let name = |program: &str| {
        let path = new_numbered(base, OsStr::new(program)).unwrap();
        path.file_name().unwrap().to_str().unwrap().to_owned()
    };
    assert_eq!(name("/usr/bin/ls"), "ls-0");
    assert_eq!(name("ls"), "ls-1");
    assert_eq!(name("other"), "other-0");
    std::fs::remove_dir(base.join("ls-0")).unwrap();
    assert_eq!(name("ls"), "ls-2");
    assert_eq!(name("a b/..x y$"), "_..x_y_-0");
    assert_eq!(name(""), "program-0");
    assert_eq!(name("/"), "_-0");
    assert_eq!(name(&"n".repeat(500)).len(), 66);
}

#[test]
fn many_recordings_at_once_get_different_folders() {
    let base = tempfile::tempdir().unwrap();
    let mut paths: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope
                    .spawn(|| [(); 8].map(|()| new_numbered(base.path(), OsStr::new("p")).unwrap()))
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 64);
}

#[test]
fn latest_by_name_and_by_path() {
    let base = tempfile::tempdir().unwrap();
    let base = &base.path().canonicalize().unwrap();
    assert!(matches!(
        resolve_in(base, None),
        Err(Error::NoLatest { .. })
    ));
    let first = record(base, "p", 20);
    assert!(matches!(
        resolve_in(base, None),
        Err(Error::Unmarked { .. })
    ));
    let second = record(base, "p", 10);
    set_latest(base, &first).unwrap();
    assert_eq!(resolve_in(base, None).unwrap(), first);
    set_latest(base, &second).unwrap();
    assert_eq!(resolve_in(base, None).unwrap(), second);
    assert_eq!(resolve_in(base, Some(Path::new("p-0"))).unwrap(), first);
    assert_eq!(resolve_in(base, Some(&second)).unwrap(), second);
    assert_eq!(
        resolve_in(base, Some(Path::new("latest"))).unwrap(),
        base.join("latest")
    );
    for missing in ["p-7", "../p-0", "/nowhere/at/all"] {
        let error = resolve_in(base, Some(Path::new(missing))).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
    }
    assert!(matches!(
        resolve_in(base, Some(Path::new("/"))),
        Err(Error::NotATrace { .. })
    ));

    std::fs::create_dir(base.join("no-trace")).unwrap();
    std::fs::create_dir(base.join("broken-0")).unwrap();
    std::fs::write(base.join("broken-0/manifest.json"), "{").unwrap();
    let listed: Vec<(OsString, bool)> = list(base)
        .unwrap()
        .into_iter()
        .map(|entry| (entry.name, entry.manifest.is_ok()))
        .collect();
    let expected = [("p-1", true), ("p-0", true), ("broken-0", false)];
    assert_eq!(listed, expected.map(|(name, ok)| (name.into(), ok)));
    assert!(list(&base.join("nowhere")).unwrap().is_empty());
}
