//! Excerpts: parts of tapes keep their events and numbers, and nothing else comes along.

use crate::common::*;
use proptest::prelude::*;
use relive_trace::*;

const TAPE: TapeId = TapeId::new(0, 0);
const OTHER: TapeId = TapeId::new(0, 1);

/// Events of which each third refers to a piece of input of its own.
fn sample_events() -> Vec<Owned> {
    let call = |n: u64| Owned {
        ticks: n * 10,
        digest: 0,
        kind: OwnedKind::Syscall {
            plain: syscall(0, &[n], 3),
            writes: Vec::new(),
            refs: match n % 3 {
                0 => vec![InputRef {
                    address: 0x7000,
                    length: 3,
                    offset: n,
                }],
                _ => Vec::new(),
            },
            extra: Vec::new(),
        },
    };
    (0..60).map(call).collect()
}

fn recording(directory: &std::path::Path) -> Trace {
    let mut writer = TraceWriter::create(directory, &manifest()).unwrap();
    let mut end = 0;
    for n in 0..21u8 {
        let bytes = [n, n + 100, n + 200];
        let path = input_path(directory);
        let mut all = std::fs::read(&path).unwrap();
        all.extend_from_slice(&bytes);
        std::fs::write(&path, all).unwrap();
        end += 3;
        writer
            .add_pieces(&[Piece {
                end,
                sum: input_sum(&bytes),
            }])
            .unwrap();
    }
    for id in [TAPE, OTHER] {
        let mut encoder = Encoder::new();
        for (n, event) in sample_events().iter().enumerate() {
            let mut bytes = Vec::new();
            event.with(|event| encoder.encode(event, &mut bytes));
            writer.append(id, &bytes).unwrap();
            if n % 7 == 6 {
                writer.flush(id).unwrap();
            }
        }
    }
    writer.finish(Some(&summary())).unwrap();
    Trace::open(directory).unwrap()
}

/// The marks of a tape before each of its events.
fn marks(trace: &Trace, id: TapeId) -> Vec<TapeMark> {
    let mut tape = trace.tape(id).unwrap();
    let mut marks = vec![tape.mark()];
    while tape.next().unwrap().is_some() {
        marks.push(tape.mark());
    }
    marks
}

fn excerpt_of(
    trace: &Trace,
    directory: &std::path::Path,
    from: TapeMark,
    to: Option<u64>,
) -> Trace {
    let mut writer = TraceWriter::create(directory, &trace.manifest().of_excerpt()).unwrap();
    let part = TapePart { id: TAPE, from, to };
    copy_parts(trace, &[part], &mut writer).unwrap();
    // It is none before it says where it begins.
    assert!(Trace::open(directory).is_err());
    let process = BeginProcess {
        process: 0,
        work: 1,
        event: from.event,
        threads: 1,
    };
    writer
        .begins(Excerpt {
            images: 3,
            order: 0,
            processes: vec![process],
            tapes: vec![BeginTape::new(TAPE, from)],
            cut: to.is_some(),
            gaps: Vec::new(),
            input: 0,
        })
        .unwrap();
    let summary = summary();
    writer.finish(to.is_none().then_some(&summary)).unwrap();
    Trace::open(directory).unwrap()
}

#[test]
fn events_keep_numbers_ticks_and_bytes() {
    let base = tempfile::tempdir().unwrap();
    let whole = recording(&base.path().join("whole"));
    let marks = marks(&whole, TAPE);
    for (from, to) in [
        (0, None),
        (1, Some(1)),
        (20, Some(31)),
        (33, None),
        (60, None),
        (59, Some(60)),
    ] {
        let folder = base.path().join(format!("part-{from}"));
        let part = excerpt_of(&whole, &folder, marks[from], to);
        assert_eq!(part.tapes().len(), 1);
        assert_eq!(part.base(TAPE), marks[from]);
        let mut theirs = whole.tape_at(TAPE, &marks[from]).unwrap();
        let mut ours = part.tape(TAPE).unwrap();
        assert_eq!(ours.mark(), theirs.mark());
        while ours.position() < to.unwrap_or(60) {
            let mark = ours.mark();
            assert_eq!(mark, theirs.mark());
            assert_eq!(part.tape_at(TAPE, &mark).unwrap().mark(), mark);
            let (one, other) = (
                ours.next().unwrap().unwrap(),
                theirs.next().unwrap().unwrap(),
            );
            assert_eq!((one.ticks, one.digest), (other.ticks, other.digest));
            let (Kind::Syscall(one), Kind::Syscall(other)) = (one.kind, other.kind) else {
                panic!("calls only")
            };
            assert_eq!(one.args, other.args);
            let written = |trace: &Trace, call| trace.input().written(call).unwrap();
            assert_eq!(written(&part, &one), written(&whole, &other));
        }
        assert!(ours.next().unwrap().is_none());
        // Only the pieces that its events name.
        part.verify_files().unwrap();
        let events = from as u64..to.unwrap_or(60);
        let named = events.filter(|n| n % 3 == 0).count() as u64;
        assert_eq!(part.input().length(), 3 * named);
        if from > 0 {
            assert!(part.tape_at(TAPE, &TapeMark::default()).is_err());
        }
    }
}

#[test]
fn another_reader_refuses_it_by_its_major_version() {
    assert_ne!(EXCERPT_FORMAT.major, FORMAT.major);
    let base = tempfile::tempdir().unwrap();
    let whole = recording(&base.path().join("whole"));
    let part = excerpt_of(&whole, &base.path().join("part"), TapeMark::default(), None);
    assert_eq!(part.manifest().format, EXCERPT_FORMAT);
    assert_eq!(whole.manifest().format, FORMAT);
}

proptest! {
    /// Whatever a manifest says of the beginning, reading ends well: an error, or events of the tapes.
    #[test]
    fn any_beginning_is_an_error_or_read(
        processes in prop::collection::vec((0u32..3, any::<u64>(), any::<u64>(), 0u32..3), 0..3),
        tapes in prop::collection::vec((0u32..3, 0u32..3, any::<u64>(), any::<u64>(), any::<u64>()), 0..4),
        small in any::<bool>(),
        order in any::<u64>(),
    ) {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("trace");
        drop(recording(&folder));
        let path = manifest_file(&folder);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let least = |n: u64| if small { n % 64 } else { n };
        json["format"] = serde_json::json!({ "major": 2, "minor": 0 });
        json["excerpt"] = serde_json::json!({
            "images": 1,
            "order": least(order),
            "processes": processes.iter().map(|(process, work, event, threads)| serde_json::json!({
                "process": process, "work": least(*work), "event": least(*event), "threads": threads,
            })).collect::<Vec<_>>(),
            "tapes": tapes.iter().map(|(process, thread, offset, event, ticks)| serde_json::json!({
                "process": process, "thread": thread, "offset": least(*offset), "event": least(*event), "ticks": ticks,
            })).collect::<Vec<_>>(),
        });
        std::fs::write(&path, json.to_string()).unwrap();
        if let Ok(trace) = Trace::open(&folder) {
            for tape in trace.tapes() {
                let mut reader = trace.tape(tape.id).unwrap();
                while let Ok(Some(_)) = reader.next() {}
                let base = trace.base(tape.id);
                prop_assert!(reader.position() - base.event <= tape.raw_bytes);
                let _ = trace.tape_at(tape.id, &TapeMark { offset: base.offset / 2, ..base });
            }
        }
    }
}
