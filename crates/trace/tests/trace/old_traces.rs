//! Old recordings stay readable: `testdata` keeps one of each format version with its expected
//! text. They are never made again; a new version gets a folder of its own.

use std::fmt::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::common;
use relive_trace::*;

fn testdata(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(version)
}

/// A trace as text that does not change when fields are added.
fn text(directory: &Path) -> String {
    let trace = Trace::open(directory).unwrap();
    let manifest = trace.manifest();
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Debug| {
        writeln!(text, "{name}: {value:?}").unwrap();
    };
    line("format", &manifest.format.to_string());
    line("relive", &manifest.relive);
    line("created", &manifest.created);
    line("command", &manifest.command);
    line("directory", &manifest.directory);
    line("environment", &manifest.environment);
    line("system", &manifest.system.release);
    line("cpu", &(&manifest.cpu.model, &manifest.cpu.features));
    line("page size", &manifest.page_size);
    line("complete", &(manifest.complete, trace.truncated()));
    let summary = manifest.summary.as_ref().unwrap();
    line("exit", &summary.exit);
    line("events", &summary.events);
    line("files", &trace.verify_files().unwrap());
    for tape in trace.tapes() {
        writeln!(text, "\ntape {} in {} chunks", tape.id, tape.chunks).unwrap();
        text += &common::render(&mut trace.tape(tape.id).unwrap()).unwrap();
    }
    text
}

/// The recording of one version, whose text must be the expected one.
fn checked(version: &str) -> Trace {
    let folder = testdata(version);
    let expected = std::fs::read_to_string(folder.join("expected.txt")).unwrap();
    assert_eq!(text(&folder.join("trace")), expected);
    Trace::open(&folder.join("trace")).unwrap()
}

#[test]
fn version_1() {
    let trace = checked("v1");
    let mut reader = trace.tape(TapeId::new(0, 0)).unwrap();
    while let Some(event) = reader.next().unwrap() {
        if let Kind::Exec(bytes) = event.kind {
            assert_eq!(Image::decode(bytes).unwrap(), common::image());
        }
    }
}

/// With handovers between processes and the content of shared memory.
#[test]
fn version_1_1() {
    checked("v1.1");
}

/// With references into a store of input.
#[test]
fn version_1_2() {
    let trace = checked("v1.2");
    assert_eq!(input_of(&trace), "[0x7000] what the program read, and");
}

/// With readings of clocks.
#[test]
fn version_1_3() {
    checked("v1.3");
}

/// With a part of a file.
#[test]
fn version_1_4() {
    checked("v1.4");
    let files = FileStore::new(&testdata("v1.4").join("trace"));
    let runs = |id| {
        let copy = files.open(id).unwrap();
        let encoded = Encoded::Copy(&copy, copy.metadata().unwrap().len());
        let mut reader = PartReader::new(encoded).ok()?;
        let mut runs = vec![(reader.part().start, reader.part().end)];
        while let Some(run) = reader.run().unwrap() {
            runs.push((run.offset, run.len));
        }
        Some(runs)
    };
    let parts: Vec<_> = files.ids().unwrap().into_iter().filter_map(runs).collect();
    assert_eq!(parts, [[(4096, 28672), (8192, 4096), (16384, 4196)]]);
}

/// With moments and edges of threads that ran at the same time.
#[test]
fn version_1_5() {
    checked("v1.5");
}

/// The manifest may name sites.
#[test]
fn version_1_6() {
    checked("v1.6");
}

/// Signals may be operations.
#[test]
fn version_1_7() {
    checked("v1.7");
}

/// An excerpt: tapes that go on, and one that is there from its first event on.
#[test]
fn version_2_0() {
    let trace = checked("v2.0");
    let excerpt = trace.manifest().excerpt.as_ref().unwrap();
    assert_eq!((excerpt.images, excerpt.order, excerpt.cut), (77, 1, false));
    let begins = excerpt.process(0).unwrap();
    assert_eq!((begins.work, begins.event, begins.threads), (900, 5, 1));
    for tape in &excerpt.tapes {
        assert_eq!(trace.tape(tape.id()).unwrap().mark(), tape.mark());
    }
    // Nothing of another process is there: it was over before.
    assert!(trace.begins_behind(1) && !trace.begins_behind(0));
    assert!(
        !Trace::open(&testdata("v1.7").join("trace"))
            .unwrap()
            .begins_behind(1)
    );
}

/// The folder for the test data of a format version that has none yet.
fn new_version(version: Version) -> PathBuf {
    let folder = testdata(&format!("v{version}"));
    assert!(!folder.exists(), "old traces are never made again");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// How the first version of an excerpt was made.
#[test]
#[ignore = "makes the test data of a new format version"]
fn make_excerpt_version() {
    let folder = new_version(EXCERPT_FORMAT);
    let whole = Trace::open(&testdata("v1.7").join("trace")).unwrap();
    let directory = folder.join("trace");
    let mut writer = TraceWriter::create(&directory, &whole.manifest().of_excerpt()).unwrap();
    for id in FileStore::new(whole.directory()).ids().unwrap() {
        writer
            .files()
            .take(id, &FileStore::new(whole.directory()))
            .unwrap();
    }
    let (mut parts, mut tapes) = (Vec::new(), Vec::new());
    for (n, id) in whole.tapes().iter().map(|tape| tape.id).enumerate() {
        let mut reader = whole.tape(id).unwrap();
        for _ in 0..3 {
            reader.next().unwrap();
        }
        let from = match n {
            0 => reader.mark(),
            _ => TapeMark::default(),
        };
        if n == 0 {
            tapes.push(BeginTape::new(id, from));
        }
        parts.push(TapePart { id, from, to: None });
    }
    copy_parts(&whole, &parts, &mut writer).unwrap();
    writer
        .begins(Excerpt {
            images: 77,
            order: 1,
            processes: vec![BeginProcess {
                process: 0,
                work: 900,
                event: 5,
                threads: 1,
            }],
            tapes,
            cut: false,
            gaps: Vec::new(),
            input: 0,
        })
        .unwrap();
    writer.finish(whole.manifest().summary.as_ref()).unwrap();
    std::fs::write(folder.join("expected.txt"), text(&directory)).unwrap();
}

/// The bytes that the references of a trace's only tape lead to.
fn input_of(trace: &Trace) -> String {
    let mut text = String::new();
    let mut reader = trace.tape(TapeId::new(0, 0)).unwrap();
    while let Some(event) = reader.next().unwrap() {
        if let Kind::Syscall(call) = event.kind {
            let by_value = call.writes.iter().count();
            for (at, bytes) in &trace.input().written(&call).unwrap()[by_value..] {
                write!(text, "[{at:#x}] {}", bytes.escape_ascii()).unwrap();
            }
        }
    }
    text
}

/// How a version that is no longer written was made, while it was the present one. It stops
/// where the folder of the present one exists.
#[test]
#[ignore = "makes the test data of a new format version"]
fn make_present_version() {
    let folder = new_version(FORMAT);
    let directory = folder.join("trace");
    let mut writer = TraceWriter::create(&directory, &common::manifest()).unwrap();
    let source = folder.join("source");
    std::fs::write(&source, "a mapped file\n").unwrap();
    let file = std::fs::File::open(&source).unwrap();
    writer.files().add(&file).unwrap();
    std::fs::remove_file(source).unwrap();
    let part = Part {
        start: 4096,
        end: 28672,
        size: 20580,
    };
    let file = tempfile::tempfile().unwrap();
    file.set_len(part.size).unwrap();
    file.write_all_at(&[b'a'; 4096], 8192).unwrap();
    file.write_all_at(&[b'z'; 4196], 16384).unwrap();
    let mut source = FileSource {
        file: &file,
        holes: None,
    };
    writer.files().add_part(part, &mut source).unwrap();
    // Behind the last piece: from a process that died while it wrote.
    let input = b"not read: what the program read, and more; half";
    std::fs::write(input_path(&directory), input).unwrap();
    let piece = |start: usize, end: usize| Piece {
        end: end as u64,
        sum: input_sum(&input[start..end]),
    };
    writer.add_pieces(&[piece(0, 20), piece(20, 42)]).unwrap();
    let bytes = common::encode(&common::sample());
    // One tape in one chunk, the other cut inside events.
    writer.append(TapeId::schedule(0), &bytes).unwrap();
    for part in bytes.chunks(60) {
        writer.append(TapeId::new(0, 0), part).unwrap();
        writer.flush(TapeId::new(0, 0)).unwrap();
    }
    writer.finish(Some(&common::summary())).unwrap();
    std::fs::write(folder.join("expected.txt"), text(&directory)).unwrap();
}
