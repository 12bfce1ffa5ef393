//! Whole traces: written, read, watched while they grow, and cut off.

use crate::common;
use crate::common::{Owned, OwnedKind, encode, events, manifest, summary};
use proptest::collection::vec;
use proptest::prelude::*;
use relive_sched::Rng;
use relive_trace::*;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn check(reader: &mut TapeReader, expected: &[Owned]) {
    for (index, owned) in expected.iter().enumerate() {
        assert_eq!(reader.position(), index as u64);
        for _ in 0..2 {
            let peeked = reader.peek().unwrap().unwrap();
            assert!(owned.is(&peeked), "{peeked:?}");
        }
        assert!(owned.is(&reader.next().unwrap().unwrap()));
    }
    for _ in 0..2 {
        assert_eq!(reader.peek().unwrap(), None);
        assert_eq!(reader.next().unwrap(), None);
    }
    assert_eq!(reader.position(), expected.len() as u64);
}

#[test]
fn a_trace_says_what_it_was_told() {
    let base = folder();
    let directory = base.path().join("trace");
    let mut writer = TraceWriter::create(&directory, &manifest()).unwrap();
    let bytes = encode(&common::sample());
    writer.append(TapeId::new(0, 0), &bytes).unwrap();
    writer.append(TapeId::schedule(0), &bytes).unwrap();
    assert_eq!(writer.counters(), Counters::default());

    let growing = Trace::open(&directory).unwrap();
    assert!(!growing.manifest().complete && !growing.truncated());
    assert!(growing.tapes().is_empty());

    writer.flush(TapeId::new(0, 0)).unwrap();
    assert_eq!(writer.counters().raw_bytes, bytes.len() as u64);
    let finished = writer.finish(Some(&summary())).unwrap();

    let trace = Trace::open(&directory).unwrap();
    assert_eq!(*trace.manifest(), finished);
    assert!(finished.complete && !trace.truncated());
    let told = finished.summary.unwrap();
    assert_eq!(told.raw_bytes, 2 * bytes.len() as u64);
    assert_eq!(
        told.stored_bytes,
        std::fs::metadata(directory.join("tapes")).unwrap().len()
    );
    let ids: Vec<TapeId> = trace.tapes().iter().map(|tape| tape.id).collect();
    assert_eq!(ids, [TapeId::new(0, 0), TapeId::schedule(0)]);
    for id in ids {
        check(&mut trace.tape(id).unwrap(), &common::sample());
    }
    assert!(matches!(
        trace.tape(TapeId::new(1, 0)),
        Err(Error::NoTape { .. })
    ));
}

#[test]
fn recordings_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let base = folder();
    let directory = base.path().join("trace");
    let writer = TraceWriter::create(&directory, &manifest()).unwrap();
    writer.finish(Some(&summary())).unwrap();
    for (name, mode) in [
        ("", 0o700),
        ("files", 0o700),
        ("tapes", 0o600),
        ("manifest.json", 0o600),
    ] {
        let metadata = std::fs::metadata(directory.join(name)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{name}");
    }
}

#[test]
fn an_event_longer_than_many_chunks() {
    let mut random = Rng::new(1);
    let noise: Vec<u8> = std::iter::repeat_with(|| random.word() as u8)
        .take(7 * CHUNK_RAW_MAX / 2)
        .collect();
    let mut events = common::sample();
    for bytes in [noise, vec![0; 5 * CHUNK_RAW_MAX]] {
        let exec = Owned {
            ticks: 5,
            digest: 0,
            kind: OwnedKind::Exec(bytes),
        };
        events.insert(3, exec);
    }
    let base = folder();
    let directory = base.path().join("trace");
    let mut writer = TraceWriter::create(&directory, &manifest()).unwrap();
    let id = TapeId::new(2, 1);
    writer.append(id, &encode(&events)).unwrap();
    writer.finish(Some(&summary())).unwrap();
    let trace = Trace::open(&directory).unwrap();
    assert!(trace.tapes()[0].stored_bytes < trace.tapes()[0].raw_bytes);
    assert_eq!(trace.tapes()[0].chunks, 9);
    check(&mut trace.tape(id).unwrap(), &events);
}

#[test]
fn a_clone_goes_its_own_way() {
    let base = folder();
    let directory = base.path().join("trace");
    let mut writer = TraceWriter::create(&directory, &manifest()).unwrap();
    let id = TapeId::new(0, 0);
    let events = common::sample();
    for part in encode(&events).chunks(5) {
        writer.append(id, part).unwrap();
        writer.flush(id).unwrap();
    }
    writer.finish(Some(&summary())).unwrap();
    let mut reader = Trace::open(&directory).unwrap().tape(id).unwrap();
    for (index, expected) in events.iter().enumerate() {
        let mut snapshot = reader.clone();
        for later in &events[index..] {
            assert!(later.is(&snapshot.next().unwrap().unwrap()));
        }
        assert_eq!(snapshot.next().unwrap(), None);
        assert!(expected.is(&reader.next().unwrap().unwrap()));
    }
}

#[test]
fn a_tape_of_a_complete_trace_may_not_end_inside_an_event() {
    let bytes = encode(&common::sample());
    let last = common::sample().len() as u64 - 1;
    let id = TapeId::new(0, 0);
    for complete in [false, true] {
        let base = folder();
        let directory = base.path().join("trace");
        let mut writer = TraceWriter::create(&directory, &manifest()).unwrap();
        writer.append(id, &bytes[..bytes.len() - 1]).unwrap();
        writer.flush_all().unwrap();
        if complete {
            writer.finish(Some(&summary())).unwrap();
        }
        let mut reader = Trace::open(&directory).unwrap().tape(id).unwrap();
        for _ in 1..common::sample().len() {
            reader.next().unwrap().unwrap();
        }
        for _ in 0..2 {
            match reader.next() {
                Ok(None) => assert!(!complete),
                Err(Error::Event { index, .. }) if index == last => assert!(complete),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_folder_in_use_is_refused() {
    let base = folder();
    let directory = base.path().join("trace");
    TraceWriter::create(&directory, &manifest()).unwrap();
    let again = TraceWriter::create(&directory, &manifest());
    assert!(matches!(again, Err(Error::NotEmpty { .. })));
    let nowhere = TraceWriter::create(&base.path().join("a/b"), &manifest());
    assert!(matches!(nowhere, Err(Error::NotWritable { .. })));
    assert!(matches!(
        Trace::open(base.path()),
        Err(Error::NotATrace { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn tapes_cut_and_flushed_anywhere(
        tapes in vec(events(), 1..4),
        cuts in vec((0usize..400, any::<bool>()), 1..30),
        finish in any::<bool>(),
    ) {
        let base = folder();
        let directory = base.path().join("trace");
        let mut writer = TraceWriter::create(&directory, &manifest()).unwrap();
        let encoded: Vec<Vec<u8>> = tapes.iter().map(|events| encode(events)).collect();
        let mut rest: Vec<&[u8]> = encoded.iter().map(|bytes| &bytes[..]).collect();
        let mut cuts = cuts.iter().cycle();
        // Every third cut may be 0: bounded by a few rounds, the remainder goes at once.
        for _ in 0..40 {
            for (thread, bytes) in rest.iter_mut().enumerate() {
                let (length, flush) = cuts.next().unwrap();
                let (now, later) = bytes.split_at((*length).min(bytes.len()));
                let id = TapeId::new(0, thread as u32);
                writer.append(id, now).unwrap();
                if *flush {
                    writer.flush(id).unwrap();
                }
                *bytes = later;
            }
        }
        for (thread, bytes) in rest.iter().enumerate() {
            writer.append(TapeId::new(0, thread as u32), bytes).unwrap();
        }
        writer.flush_all().unwrap();
        if finish {
            writer.finish(Some(&summary())).unwrap();
        }
        let trace = Trace::open(&directory).unwrap();
        for (thread, events) in tapes.iter().enumerate() {
            let id = TapeId::new(0, thread as u32);
            match trace.tape(id) {
                Ok(mut reader) => check(&mut reader, events),
                Err(_) => prop_assert!(events.is_empty()),
            }
        }
    }
}
