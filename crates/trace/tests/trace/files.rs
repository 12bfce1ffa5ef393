//! The file store: content, sharing, many at once, damage.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common;
use relive_trace::*;
use tempfile::TempDir;

fn store() -> (TempDir, FileStore) {
    let base = tempfile::tempdir().unwrap();
    let writer = TraceWriter::create(&base.path().join("trace"), &common::manifest()).unwrap();
    let store = writer.files();
    (base, store)
}

fn source(base: &TempDir, name: &str, content: &[u8]) -> File {
    let path = base.path().join(name);
    std::fs::write(&path, content).unwrap();
    File::open(path).unwrap()
}

fn names(base: &TempDir) -> Vec<String> {
    std::fs::read_dir(base.path().join("trace/files"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn content_is_kept_once_and_offsets_stay() {
    let (base, store) = store();
    let content: Vec<u8> = (0..700_000u32)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect();
    let mut first = source(&base, "a", &content);
    first.seek(SeekFrom::Start(17)).unwrap();
    let id = store.add(&first).unwrap();
    assert_eq!(first.stream_position().unwrap(), 17);
    assert_eq!(id.0, *blake3::hash(&content).as_bytes());
    assert_eq!(store.add(&source(&base, "b", &content)).unwrap(), id);
    assert_eq!(names(&base), [id.to_string()]);
    assert_eq!(std::fs::read(store.path(id)).unwrap(), content);
    let empty = store.add(&source(&base, "c", b"")).unwrap();
    assert_ne!(empty, id);
    let trace = Trace::open(&base.path().join("trace")).unwrap();
    assert_eq!(trace.verify_files().unwrap(), 2);
}

#[test]
fn special_files() {
    let (_base, store) = store();
    // The kernel's own copying sees no bytes in it, reading does.
    let id = store
        .add(&File::open("/proc/self/status").unwrap())
        .unwrap();
    assert!(std::fs::read(store.path(id)).unwrap().starts_with(b"Name:"));
    for special in ["/dev/null", "/"] {
        let refused = store.add(&File::open(special).unwrap());
        assert!(matches!(refused, Err(Error::NotRegular(_))), "{special}");
    }
}

#[test]
fn many_at_once() {
    let (base, store) = store();
    let contents: Vec<Vec<u8>> = (0..4u8).map(|n| vec![n; 300_000]).collect();
    for (n, content) in contents.iter().enumerate() {
        source(&base, &format!("source-{n}"), content);
    }
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (store, base) = (store.clone(), base.path());
            scope.spawn(move || {
                for round in 0..8 {
                    let n = (thread + round) % 4;
                    let file = File::open(base.join(format!("source-{n}"))).unwrap();
                    store.add(&file).unwrap();
                }
            });
        }
    });
    let mut expected: Vec<String> = contents
        .iter()
        .map(|content| FileId(*blake3::hash(content).as_bytes()).to_string())
        .collect();
    let mut found = names(&base);
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_source_that_changes_is_named_by_what_was_kept() {
    let (base, store) = store();
    let changing = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(base.path().join("changing"))
        .unwrap();
    changing.write_all_at(&[0; 500_000], 0).unwrap();
    let done = AtomicBool::new(false);
    let ids: Vec<FileId> = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..=255u8).cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                changing.write_all_at(&[n; 500_000], 0).unwrap();
            }
        });
        let ids = (0..12).map(|_| store.add(&changing).unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        ids
    });
    for id in ids {
        let kept = std::fs::read(store.path(id)).unwrap();
        assert_eq!(id.0, *blake3::hash(&kept).as_bytes());
    }
}

#[test]
fn damage_is_found() {
    let (base, store) = store();
    let id = store.add(&source(&base, "a", b"content")).unwrap();
    let trace = Trace::open(&base.path().join("trace")).unwrap();
    trace.verified_file(id).unwrap();
    std::fs::write(store.path(id), b"CONTENT").unwrap();
    trace.file(id).unwrap();
    for result in [
        trace.verified_file(id).map(|_| ()),
        trace.verify_files().map(|_| ()),
    ] {
        assert!(matches!(result, Err(Error::FileContent { .. })));
    }
    std::fs::remove_file(store.path(id)).unwrap();
    assert!(matches!(trace.file(id), Err(Error::NoFile { .. })));
    std::os::unix::fs::symlink(Path::new("/etc/passwd"), store.path(id)).unwrap();
    assert!(
        trace.file(id).is_err(),
        "a link out of the trace was followed"
    );
}

#[test]
fn ids_print_and_parse() {
    let id = FileId([0xab; 32]);
    assert_eq!(id.to_string(), "ab".repeat(32));
    assert_eq!(id.to_string().parse(), Ok(id));
    for bad in ["", "ab", &"AB".repeat(32), &"ab".repeat(33)] {
        assert_eq!(bad.parse::<FileId>(), Err(()), "{bad}");
    }
}
