//! Parts of files: the content read back from a file with holes, and hostile parts.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::common;
use relive_sched::Rng;
use relive_trace::*;

const MIB: u64 = 1 << 20;

fn store() -> (tempfile::TempDir, FileStore) {
    let base = tempfile::tempdir().unwrap();
    let writer = TraceWriter::create(&base.path().join("trace"), &common::manifest()).unwrap();
    let store = writer.files();
    (base, store)
}

/// Range and content of a part, from its start to the last byte that is kept.
fn content(encoded: Encoded<'_>) -> std::io::Result<(Part, Vec<u8>)> {
    let mut reader = PartReader::new(encoded)?;
    let part = reader.part();
    let mut bytes = Vec::new();
    while let Some(run) = reader.run()? {
        bytes.resize((run.offset - part.start) as usize, 0);
        let from = bytes.len();
        bytes.resize(from + run.len as usize, 0);
        reader.read(&run, &mut bytes[from..], 0)?;
    }
    Ok((part, bytes))
}

fn sparse(base: &tempfile::TempDir, size: u64, data: &[(u64, &[u8])]) -> File {
    let path = base.path().join("sparse");
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .unwrap();
    file.set_len(size).unwrap();
    for (at, bytes) in data {
        file.write_all_at(bytes, *at).unwrap();
    }
    file
}

fn kept(store: &FileStore, part: Part, file: &File, seek: bool) -> KeptPart {
    let holes = seek.then(|| File::open(format!("/proc/self/fd/{}", fd(file))).unwrap());
    let mut source = FileSource { file, holes };
    store.add_part(part, &mut source).unwrap()
}

fn fd(file: &File) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(file)
}

#[test]
fn a_part_is_what_the_file_holds_there() {
    let (base, store) = store();
    let random: Vec<u8> = (0..600_000u32)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8 | 1)
        .collect();
    let size = 3 * MIB + 17;
    let file = sparse(&base, size, &[(MIB - 5, &random), (size - 3, b"end")]);
    let mut whole = vec![0; size as usize];
    file.read_exact_at(&mut whole, 0).unwrap();
    let ranges = [
        (0, 4 * MIB),
        (MIB, 2 * MIB),
        (MIB - 4096, MIB),
        (2 * MIB, 3 * MIB),
        (3 * MIB, 4 * MIB),
        (4 * MIB, 5 * MIB),
        (MIB, MIB),
    ];
    for (start, end) in ranges {
        let part = Part { start, end, size };
        let first = kept(&store, part, &file, true);
        assert_eq!(first, kept(&store, part, &file, false), "{start} {end}");
        let (said, bytes) = match &first {
            KeptPart::Inline(bytes) => content(Encoded::Inline(bytes)).unwrap(),
            KeptPart::Copy(id) => {
                let copy = store.open(*id).unwrap();
                let len = copy.metadata().unwrap().len();
                assert!(len > INLINE_MAX as u64 && len < 700_000, "{len}");
                content(Encoded::Copy(&copy, len)).unwrap()
            }
        };
        assert_eq!(said, part);
        let [from, to] = [start, end].map(|at| at.min(size) as usize);
        let mut expected = whole[from..to].to_vec();
        let zeros = expected.iter().rev().take_while(|&&b| b == 0).count();
        expected.truncate((expected.len() - zeros).max(bytes.len()));
        assert!(bytes == expected, "{start} {end}");
    }
    // The offset is the recorded program's.
    assert_eq!(rustix::fs::tell(&file).unwrap(), 0);
}

#[test]
fn holes_cost_nothing() {
    let (base, store) = store();
    let end = 1 << 43;
    let file = sparse(&base, end, &[(end - 10, b"there")]);
    let part = Part {
        start: 0,
        end,
        size: end,
    };
    let KeptPart::Inline(bytes) = kept(&store, part, &file, true) else {
        panic!("it is small");
    };
    let mut reader = PartReader::new(Encoded::Inline(&bytes)).unwrap();
    let run = reader.run().unwrap().unwrap();
    assert_eq!((run.offset, run.len), (end - 4096, 4096));
    assert_eq!(reader.run().unwrap(), None);
}

/// Offset and length of a run, and how many bytes there are.
type Written = (u64, u64, usize);

fn encoded(words: [u64; 3], runs: &[Written]) -> Vec<u8> {
    let mut bytes = b"RLVPART1".to_vec();
    bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    for (offset, len, there) in runs {
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.resize(bytes.len() + there, 7);
    }
    bytes
}

#[test]
fn what_a_stranger_may_write_is_an_error() {
    let part = [4096, 16384, 12000];
    let good = encoded(part, &[(4096, 10, 10), (4106, 5, 5), (11990, 10, 10)]);
    let (_, bytes) = content(Encoded::Inline(&good)).unwrap();
    assert_eq!(bytes.len(), 12000 - 4096);
    let most = u64::MAX;
    let bad: &[([u64; 3], &[Written])] = &[
        ([16384, 4096, 12000], &[]),
        ([4097, 16384, 12000], &[]),
        ([4096, most, 12000], &[]),
        (part, &[(0, 10, 10)]),
        (part, &[(4096, 0, 0)]),
        (part, &[(4096, 10, 9)]),
        (part, &[(4096, most, 10)]),
        (part, &[(most, 2, 2)]),
        (part, &[(11990, 11, 11)]),
        (part, &[(4096, 10, 10), (4105, 5, 5)]),
        (part, &[(8192, 10, 10), (4096, 5, 5)]),
        ([4096, 16384, most], &[(16380, 10, 10)]),
    ];
    for (words, runs) in bad {
        let bytes = encoded(*words, runs);
        assert!(
            content(Encoded::Inline(&bytes)).is_err(),
            "{words:?} {runs:?}"
        );
        let (file, len) = (tempfile::tempfile().unwrap(), bytes.len() as u64);
        file.write_all_at(&bytes, 0).unwrap();
        assert!(content(Encoded::Copy(&file, len)).is_err(), "{runs:?}");
    }
    for n in 0..good.len() {
        let cut = content(Encoded::Inline(&good[..n]));
        // Whole runs are a part.
        assert_eq!(cut.is_ok(), [32, 58, 79].contains(&n), "cut to {n}");
    }
    let mut random = Rng::new(0x5eed);
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..3 {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.word() as u8;
        }
        if let Ok(mut reader) = PartReader::new(Encoded::Inline(&bytes)) {
            let part = reader.part();
            let mut least = part.start;
            while let Ok(Some(run)) = reader.run() {
                assert!(run.offset >= least && run.offset + run.len <= part.end.min(part.size));
                least = run.offset + run.len;
            }
        }
    }
}
