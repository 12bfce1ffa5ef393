//! A recorded program's umask is its process's, and must not reach the copies made there.
//! A test program of its own, because the umask belongs to the process.

#[path = "trace/common/mod.rs"]
mod common;

use std::os::unix::fs::PermissionsExt as _;

use relive_trace::*;

#[test]
fn copies_stay_readable() {
    let base = tempfile::tempdir().unwrap();
    let writer = TraceWriter::create(&base.path().join("trace"), &common::manifest()).unwrap();
    let source = base.path().join("source");
    std::fs::write(&source, "content").unwrap();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777));
    let store = writer.files();
    let id = store.add(&std::fs::File::open(source).unwrap()).unwrap();
    let metadata = std::fs::metadata(store.path(id)).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
}
