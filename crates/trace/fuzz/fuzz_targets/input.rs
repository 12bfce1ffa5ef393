//! Any bytes as a list of pieces, and any references into the store: reading ends without a panic,
//! and yields only bytes that a piece vouches for.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use relive_trace::{Manifest, Trace, TraceWriter, input_path};
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let base = tempfile::tempdir().expect("a temporary folder");
    let directory = base.path().join("trace");
    let manifest = Manifest::new(Vec::new(), "/".into(), Vec::new());
    TraceWriter::create(&directory, &manifest).expect("an empty trace");
    std::fs::write(input_path(&directory), [7; 5000]).expect("the store can be written");
    base
});

fuzz_target!(|bytes: &[u8]| {
    let directory = FOLDER.path().join("trace");
    std::fs::write(directory.join("input.sums"), bytes).expect("the list can be written");
    let Ok(trace) = Trace::open(&directory) else {
        return;
    };
    let input = trace.input();
    assert!(input.length() <= 5000);
    for range in bytes.chunks_exact(16) {
        let half = |at: usize| u64::from_le_bytes(range[at..at + 8].try_into().unwrap());
        let mut out = Vec::new();
        match input.read(half(0), half(8), &mut out) {
            Ok(()) => assert!(out.len() as u64 == half(8) && out.iter().all(|b| *b == 7)),
            Err(_) => assert!(out.is_empty()),
        }
    }
});
