//! Any bytes as a tapes file: opening and reading it ends, and ends well.
//!
//! The checksums keep random bytes from the code behind them; start from a corpus with a real tapes
//! file (`testdata/v1/trace/tapes`).

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use relive_trace::{Manifest, Trace, TraceWriter};
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let base = tempfile::tempdir().expect("a temporary folder");
    let manifest = Manifest::new(Vec::new(), "/".into(), Vec::new());
    TraceWriter::create(&base.path().join("trace"), &manifest).expect("an empty trace");
    base
});

fuzz_target!(|bytes: &[u8]| {
    let directory = FOLDER.path().join("trace");
    std::fs::write(directory.join("tapes"), bytes).expect("the tapes file can be written");
    let Ok(trace) = Trace::open(&directory) else {
        return;
    };
    for tape in trace.tapes() {
        let mut reader = trace.tape(tape.id).expect("it is listed");
        while let Ok(Some(_)) = reader.next() {}
        assert!(reader.position() <= tape.raw_bytes);
    }
});
