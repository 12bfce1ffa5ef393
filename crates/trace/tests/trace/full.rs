//! A disk that fills up in the middle of a chunk, stood in for by a limit on file sizes.

use std::path::Path;
use std::process::Command;

use crate::common;
use relive_sched::Rng;
use relive_trace::*;

/// Tells the test that it is its own child, under the limit, and where to record.
const FOLDER: &str = "RELIVE_TEST_FOLDER";

#[test]
fn a_half_written_chunk_is_cut_off_again() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return fill(Path::new(&folder));
    }
    let base = tempfile::tempdir().unwrap();
    // Pipes, as the limit also holds for a file to which this test's own output may go.
    let child = Command::new("sh")
        // Ignored, the signal for the limit becomes an error of write(2).
        .args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "full::a_half_written_chunk_is_cut_off_again"])
        .env(FOLDER, base.path().join("trace"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{}: {text}{errors}", child.status);
    assert!(
        base.path().join("trace/reached").exists(),
        "the child tested nothing"
    );
    let trace = Trace::open(&base.path().join("trace")).unwrap();
    assert!(!trace.truncated());
    let mut reader = trace.tape(TapeId::new(0, 0)).unwrap();
    assert_eq!(
        common::render(&mut reader).unwrap().lines().count(),
        common::sample().len()
    );
}

fn fill(directory: &Path) {
    let mut writer = TraceWriter::create(directory, &common::manifest()).unwrap();
    let tape = TapeId::new(0, 0);
    writer
        .append(tape, &common::encode(&common::sample()))
        .unwrap();
    writer.flush(tape).unwrap();
    let mut random = Rng::new(1);
    let noise: Vec<u8> = std::iter::repeat_with(|| random.word() as u8)
        .take(CHUNK_RAW_MAX)
        .collect();
    for _ in 0..2 {
        let error = writer.append(TapeId::new(0, 1), &noise).unwrap_err();
        assert!(matches!(error, Error::Full { .. }), "{error}");
        assert_eq!(
            std::fs::metadata(directory.join("tapes")).unwrap().len(),
            writer.counters().stored_bytes
        );
    }
    std::fs::write(directory.join("reached"), "").unwrap();
}
