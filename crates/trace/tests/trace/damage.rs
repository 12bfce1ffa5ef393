//! Damage: for every flipped bit and every truncation of a small trace the reader answers
//! with an error or with a prefix of the true events: never other events, never a panic.

use std::path::{Path, PathBuf};

use crate::common;
use crate::common::{Owned, encode, manifest, summary};
use relive_trace::*;
use tempfile::TempDir;

struct Small {
    _base: TempDir,
    directory: PathBuf,
    events: Vec<Owned>,
}

const TAPES: [TapeId; 2] = [TapeId::new(0, 0), TapeId::new(0, 1)];

/// Two tapes in several chunks each, some compressed and some not.
fn small(complete: bool) -> Small {
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().join("trace");
    let mut writer = TraceWriter::create(&directory, &manifest()).unwrap();
    let mut events = common::sample();
    events.insert(
        4,
        Owned {
            ticks: 8,
            digest: 0,
            kind: common::OwnedKind::Exec(vec![b'x'; 200]),
        },
    );
    let bytes = encode(&events);
    for part in bytes.chunks(bytes.len().div_ceil(3)) {
        for tape in TAPES {
            writer.append(tape, part).unwrap();
        }
        writer.flush_all().unwrap();
    }
    if complete {
        writer.finish(Some(&summary())).unwrap();
    }
    Small {
        _base: base,
        directory,
        events,
    }
}

#[derive(Debug, PartialEq)]
enum Answer {
    Error,
    Prefix,
    Whole,
}

/// Reads everything and insists that it is a prefix of the truth.
fn read(directory: &Path, events: &[Owned]) -> Answer {
    let Ok(trace) = Trace::open(directory) else {
        return Answer::Error;
    };
    let mut whole = true;
    for tape in TAPES {
        let Ok(mut reader) = trace.tape(tape) else {
            whole = false;
            continue;
        };
        let mut expected = events.iter();
        loop {
            match reader.next() {
                Ok(Some(event)) => {
                    let expected = expected.next().expect("more events than there were");
                    assert!(expected.is(&event), "other events: {event:?}");
                }
                Ok(None) => break,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    return Answer::Error;
                }
            }
        }
        whole &= expected.next().is_none();
    }
    if whole && !trace.truncated() {
        Answer::Whole
    } else {
        assert!(
            trace.truncated() || !trace.manifest().complete,
            "events are missing and nothing says so"
        );
        Answer::Prefix
    }
}

#[test]
fn every_flipped_bit_of_the_tapes() {
    for complete in [false, true] {
        let small = small(complete);
        assert_eq!(read(&small.directory, &small.events), Answer::Whole);
        let path = small.directory.join("tapes");
        let bytes = std::fs::read(&path).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &flipped).unwrap();
            let answer = read(&small.directory, &small.events);
            assert_eq!(answer, Answer::Error, "bit {bit}");
        }
    }
}

#[test]
fn every_truncation_of_the_tapes() {
    for complete in [false, true] {
        let small = small(complete);
        let path = small.directory.join("tapes");
        let bytes = std::fs::read(&path).unwrap();
        for end in 0..bytes.len() {
            for zeros in [0, 100] {
                let mut cut = bytes[..end].to_vec();
                cut.resize(end + zeros.min(bytes.len() - end), 0);
                std::fs::write(&path, &cut).unwrap();
                let answer = read(&small.directory, &small.events);
                if zeros == 0 {
                    assert_eq!(answer, Answer::Prefix, "cut at {end}");
                } else {
                    assert_ne!(answer, Answer::Whole, "zeros at {end}");
                }
            }
        }
    }
}

#[test]
fn parts_of_the_tapes_swapped_repeated_or_left_out() {
    let small = small(true);
    let path = small.directory.join("tapes");
    let bytes = std::fs::read(&path).unwrap();
    let starts: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(b"RLVC"))
        .chain([bytes.len()])
        .collect();
    let chunks: Vec<&[u8]> = starts
        .windows(2)
        .map(|pair| &bytes[pair[0]..pair[1]])
        .collect();
    assert_eq!(chunks.len(), 6);
    let last = chunks.len() - 1;
    for index in 0..chunks.len() {
        let mut without = chunks.clone();
        without.remove(index);
        let mut twice = chunks.clone();
        twice.insert(index, chunks[index]);
        let mut swapped = chunks.clone();
        swapped.swap(index, (index + 2) % chunks.len());
        for (chunks, allowed) in [
            // Chunks missing at the end are a truncation.
            (
                without,
                if index + 1 >= last {
                    Answer::Prefix
                } else {
                    Answer::Error
                },
            ),
            (twice, Answer::Error),
            (swapped, Answer::Error),
        ] {
            std::fs::write(&path, chunks.concat()).unwrap();
            assert_eq!(read(&small.directory, &small.events), allowed, "{index}");
        }
    }
}

#[test]
fn every_flipped_byte_and_truncation_of_the_manifest() {
    let small = small(true);
    let path = small.directory.join("manifest.json");
    let text = std::fs::read(&path).unwrap();
    for at in 0..text.len() {
        for mask in [1, 0x10, 0x80] {
            let mut flipped = text.clone();
            flipped[at] ^= mask;
            std::fs::write(&path, &flipped).unwrap();
            read(&small.directory, &small.events);
        }
        std::fs::write(&path, &text[..at]).unwrap();
        if at < text.len() - 1 {
            let answer = read(&small.directory, &small.events);
            assert_eq!(answer, Answer::Error, "cut at {at}");
        }
    }
}

#[test]
fn links_and_pipes_are_not_followed() {
    let small = small(true);
    for name in ["tapes", "manifest.json"] {
        let path = small.directory.join(name);
        let elsewhere = small.directory.join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert_eq!(read(&small.directory, &small.events), Answer::Error);
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!(read(&small.directory, &small.events), Answer::Error);
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&elsewhere, &path).unwrap();
    }
    assert_eq!(read(&small.directory, &small.events), Answer::Whole);
}

#[test]
fn nothing_may_follow_a_complete_recording() {
    let small = small(true);
    let path = small.directory.join("tapes");
    let mut bytes = std::fs::read(&path).unwrap();
    // A chunk that fits in every other way: the first of a tape that was not there.
    let other = tempfile::tempdir().unwrap();
    let directory = other.path().join("trace");
    let mut writer = TraceWriter::create(&directory, &manifest()).unwrap();
    writer.append(TapeId::new(9, 9), b"more").unwrap();
    writer.flush_all().unwrap();
    bytes.extend(std::fs::read(directory.join("tapes")).unwrap());
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(read(&small.directory, &small.events), Answer::Error);
}
