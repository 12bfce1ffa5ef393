//! The store of input: a read returns exactly the bytes that were appended, or an error, whatever
//! happened to its files.

use std::fs;
use std::path::Path;

use crate::common;
use proptest::collection::vec;
use proptest::prelude::*;
use relive_sched::Rng;
use relive_trace::*;
use tempfile::TempDir;

struct Made {
    base: TempDir,
    bytes: Vec<u8>,
}

impl Made {
    fn directory(&self) -> std::path::PathBuf {
        self.base.path().join("trace")
    }

    fn open(&self) -> Result<Trace> {
        Trace::open(&self.directory())
    }

    /// Reads a range of the trace as it is now.
    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let mut out = b"before".to_vec();
        self.open()?.input().read(offset, length, &mut out)?;
        Ok(out.split_off(6))
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.directory().join(name);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
    }
}

fn noise(n: usize) -> Vec<u8> {
    let mut random = Rng::new(n as u64);
    std::iter::repeat_with(|| random.word() as u8)
        .take(n)
        .collect()
}

fn writer(directory: &Path) -> TraceWriter {
    TraceWriter::create(directory, &common::manifest()).unwrap()
}

/// A trace whose store came in pieces of these lengths.
fn make(lengths: &[usize], complete: bool) -> Made {
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().join("trace");
    let mut writer = writer(&directory);
    let bytes = noise(lengths.iter().sum());
    fs::write(input_path(&directory), &bytes).unwrap();
    let mut start = 0;
    for n in lengths {
        let piece = Piece {
            end: (start + n) as u64,
            sum: input_sum(&bytes[start..start + n]),
        };
        writer.add_pieces(&[piece]).unwrap();
        start += n;
    }
    if complete {
        writer.finish(Some(&common::summary())).unwrap();
    }
    Made { base, bytes }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn ranges_are_what_was_appended(
        lengths in vec(1usize..3000, 1..20),
        ranges in vec((0u64..60_000, 0u64..9000), 1..20),
        complete: bool,
    ) {
        let made = make(&lengths, complete);
        let trace = made.open().unwrap();
        prop_assert!(!trace.truncated());
        prop_assert_eq!(trace.input().length(), made.bytes.len() as u64);
        for (offset, length) in ranges {
            let mut out = Vec::new();
            let read = trace.input().read(offset, length, &mut out);
            match made.bytes.get(offset as usize..(offset + length) as usize) {
                Some(bytes) if length > 0 => {
                    read.unwrap();
                    prop_assert_eq!(out, bytes);
                }
                _ => prop_assert!(read.is_err() && out.is_empty()),
            }
        }
        trace.verify_files().unwrap();
    }

    /// A flipped bit anywhere is an error, or lies outside of the bytes read.
    #[test]
    fn no_other_bytes_are_ever_read(
        lengths in vec(1usize..300, 1..10),
        list: bool,
        at: prop::sample::Index,
        bit in 0u8..8,
    ) {
        let made = make(&lengths, true);
        made.change(if list { "input.sums" } else { "input" }, |bytes| {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        });
        prop_assert!(!made.open().is_ok_and(|t| !t.truncated() && t.verify_files().is_ok()));
        for offset in 0..made.bytes.len() as u64 {
            if let Ok(read) = made.read(offset, 1) {
                prop_assert_eq!(read[0], made.bytes[offset as usize]);
            }
        }
    }

    /// A file that was cut leaves the pieces before, and says that something is missing.
    #[test]
    fn what_was_cut_is_missing(
        lengths in vec(1usize..300, 1..10),
        list: bool,
        at: prop::sample::Index,
        complete: bool,
    ) {
        let made = make(&lengths, complete);
        made.change(if list { "input.sums" } else { "input" }, |bytes| {
            let at = at.index(bytes.len());
            bytes.truncate(at);
        });
        let trace = made.open().unwrap();
        let left = trace.input().length();
        prop_assert!(left < made.bytes.len() as u64);
        // A list that is cut between two pieces looks whole, unless its length is known.
        prop_assert!(trace.truncated() || list && !complete);
        trace.verify_files().unwrap();
        for offset in 0..made.bytes.len() as u64 {
            let read = made.read(offset, 1);
            prop_assert_eq!(read.is_ok(), offset < left);
        }
    }
}

#[test]
fn zeros_after_a_crash_are_no_pieces() {
    let made = make(&[100, 200], false);
    made.change("input.sums", |bytes| bytes.extend([0; 4096]));
    made.change("input", |bytes| bytes.extend([0; 4096]));
    let trace = made.open().unwrap();
    assert!(trace.truncated());
    assert_eq!(trace.input().length(), 300);
}

#[test]
fn more_than_a_complete_recording_has_is_an_error() {
    let made = make(&[100, 200], true);
    let more = make(&[100, 200, 1], false);
    for name in ["input", "input.sums"] {
        fs::copy(more.directory().join(name), made.directory().join(name)).unwrap();
    }
    assert!(matches!(made.open(), Err(Error::Damaged { .. })));
}

#[test]
fn forged_lengths_are_errors() {
    for ends in [
        [PIECE_MAX as u64 + 1, u64::MAX],
        [INPUT_MAX, INPUT_MAX + 1],
        [10, 10],
        [10, 9],
    ] {
        let made = make(&[10, 10], false);
        made.change("input.sums", |bytes| {
            bytes[..8].copy_from_slice(&ends[0].to_le_bytes());
            bytes[16..24].copy_from_slice(&ends[1].to_le_bytes());
        });
        assert!(
            matches!(made.open(), Err(Error::Damaged { .. })),
            "{ends:?}"
        );
    }
}

#[test]
fn a_missing_store_is_an_error_where_it_is_used() {
    let made = make(&[10], true);
    fs::remove_file(made.directory().join("input.sums")).unwrap();
    assert!(made.open().unwrap().truncated());
    assert!(made.read(0, 10).is_err());
    let made = make(&[10], true);
    fs::remove_file(made.directory().join("input")).unwrap();
    assert!(made.open().is_err());
}

#[test]
fn a_recording_without_input_has_no_such_file() {
    let made = make(&[], true);
    assert!(!made.directory().join("input").exists());
    let trace = made.open().unwrap();
    assert_eq!(trace.manifest().input_length, None);
    assert!(trace.input().file().is_none() && trace.input().length() == 0);
}

#[test]
fn what_a_call_wrote_is_put_together() {
    let made = make(&[5, 5], true);
    let refs = [
        InputRef {
            address: 0x1000,
            length: 7,
            offset: 1,
        },
        InputRef {
            address: 0x3000,
            length: 1,
            offset: 9,
        },
    ];
    let call = Syscall {
        nr: 0,
        args: Args::new(&[]),
        result: 10,
        switched: false,
        order: None,
        stream: 0,
        writes: Writes::new(&[(0x2000, b"by value")]),
        refs: Refs::new(&refs),
        extra: &[],
    };
    let trace = made.open().unwrap();
    let written = trace.input().written(&call).unwrap();
    assert_eq!(
        written,
        [
            (0x2000, b"by value".to_vec()),
            (0x1000, made.bytes[1..8].to_vec()),
            (0x3000, made.bytes[9..].to_vec()),
        ]
    );
    let beyond = [InputRef {
        address: 0,
        length: 2,
        offset: 9,
    }];
    let call = Syscall {
        refs: Refs::new(&beyond),
        ..call
    };
    assert!(trace.input().written(&call).is_err());
}
