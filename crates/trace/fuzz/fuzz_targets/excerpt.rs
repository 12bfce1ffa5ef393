//! Any bytes as the beginning of an excerpt in a manifest: opening and reading its tapes ends, and ends well.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use relive_trace::{Manifest, TapeId, TapeMark, Trace, TraceWriter, manifest_file};
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let base = tempfile::tempdir().expect("a temporary folder");
    let manifest = Manifest::new(Vec::new(), "/".into(), Vec::new());
    let directory = base.path().join("trace");
    let mut writer = TraceWriter::create(&directory, &manifest.of_excerpt()).expect("a trace");
    // A switch at each of some ticks.
    writer.append(TapeId::new(0, 0), &[4, 1, 0].repeat(20)).expect("events");
    writer.flush_all().expect("a chunk");
    base
});

fuzz_target!(|bytes: &[u8]| {
    let directory = FOLDER.path().join("trace");
    let path = manifest_file(&directory);
    let text = std::fs::read_to_string(&path).expect("a manifest");
    let Ok(excerpt) = std::str::from_utf8(bytes) else {
        return;
    };
    let end = text.rfind('}').expect("an object");
    let changed = format!("{}, \"excerpt\": {excerpt} }}", text[..end].trim_end());
    std::fs::write(&path, changed).expect("it can be written");
    if let Ok(trace) = Trace::open(&directory) {
        for tape in trace.tapes() {
            let mut reader = trace.tape(tape.id).expect("it is listed");
            let base = reader.mark();
            while let Ok(Some(_)) = reader.next() {}
            assert!(reader.position() - base.event <= tape.raw_bytes);
            let _ = trace.tape_at(tape.id, &TapeMark { offset: base.offset / 2, ..base });
        }
    }
    std::fs::write(&path, text).expect("it can be written");
});
