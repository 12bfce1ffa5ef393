//! Windows of files that are mapped shared: the parts of the file that a trace keeps.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Stdio;

use crate::sandbox::{Sandbox, text};

const WINDOW: u64 = 64 * 4096;
/// Far more than the window, in the middle of which it lies.
const SIZE: u64 = 64 << 20;

/// Bytes of the copies in a trace that are as long as a window, or longer.
fn copied(trace: &Path) -> u64 {
    let files = std::fs::read_dir(trace.join("files")).unwrap();
    let parts = files.map(|f| f.unwrap().path()).filter(|path| {
        let start = std::fs::read(path).unwrap();
        start.starts_with(b"RLVPART1")
    });
    parts.map(|path| path.metadata().unwrap().size()).sum()
}

/// A replay shows the writes of a stranger between two maps, and a trace holds the windows, not the file.
#[test]
fn what_others_write_between_two_maps_is_seen_again() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/windows.c");
    let program = sandbox.compile(&source, "windows");
    let shared = File::create(sandbox.path("shared")).unwrap();
    shared.write_all_at(&vec![b'-'; SIZE as usize], 0).unwrap();
    shared.write_all_at(b"kept\n\0", 4 * WINDOW).unwrap();
    let mut command = sandbox.command(&["record", "-o", "trace", text(&program)]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut recorded = command.spawn().unwrap();
    let mut input = recorded.stdin.take().unwrap();
    let mut output = BufReader::new(recorded.stdout.take().unwrap());
    let mut said = String::new();
    for round in 0..4_u8 {
        input.write_all(b"\n").unwrap();
        output.read_line(&mut said).unwrap();
        let letter = [b'a' + round];
        // Changes outside of the window need not be seen.
        for at in [WINDOW - 1, WINDOW, 2 * WINDOW - 1, 2 * WINDOW] {
            shared.write_all_at(&letter, at).unwrap();
        }
    }
    drop(input);
    assert!(recorded.wait().unwrap().success());
    assert_eq!(said, "--- kept\na.a kept\nb/b kept\nc0c kept\n");
    std::fs::remove_file(sandbox.path("shared")).unwrap();
    assert_eq!(sandbox.relive(&["replay", "trace"]).ok().stdout, said);
    sandbox.relive(&["verify", "trace"]).ok();
    let copied = copied(&sandbox.path("trace"));
    assert!((WINDOW..5 * WINDOW).contains(&copied), "{copied} bytes");

    // A part that is not the one of its map, or of another format, is damage.
    let files = std::fs::read_dir(sandbox.path("trace/files")).unwrap();
    let parts = files.map(|f| f.unwrap().path());
    let part = parts
        .filter(|path| std::fs::read(path).unwrap().starts_with(b"RLVPART1"))
        .min()
        .unwrap();
    let mut bytes = std::fs::read(&part).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    sandbox.relive(&["replay", "trace"]).refused("damaged");
}
