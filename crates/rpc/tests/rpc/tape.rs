//! Tapes: a written one is read, one that is cut is read up to there, and a damaged one yields a
//! prefix or an error, never other records.

use crate::executor::{Executor, Rng};
use crate::model::{Delays, Entry, Op, Program, recording, run, tapes};
use proptest::prelude::*;
use relive_rpc::tape::{self, End, Lane};
use relive_rpc::{
    Content, Decoder, Encoder, Keep, LaneKind, Mark, Member, Name, NameId, Origin, Path, Receipt,
    Record, RequestId, Session, StreamId, Tape, TaskId,
};

/// Few values, so that they come again.
fn name() -> impl Strategy<Value = Name> {
    (0..5).prop_map(|at| Name::new(&format!("name{at}")).unwrap())
}

fn path() -> impl Strategy<Value = Path> {
    let steps = prop::collection::vec(prop_oneof![0u32..3, any::<u32>()], 0..9);
    steps.prop_map(|steps| steps.into_iter().fold(Path::default(), Path::child))
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..4, any::<u64>()]
}

fn receipt() -> impl Strategy<Value = Record> {
    let id = || (0u64..50).prop_map(NameId::from_hash);
    let origin = prop_oneof![
        id().prop_map(Origin::Root),
        id().prop_map(Origin::Outside),
        (id(), number()).prop_map(|(name, place)| Origin::Gate(name, place)),
    ];
    let content = prop::option::of(any::<u64>().prop_map(Content));
    (id(), origin, path(), number(), name(), content).prop_map(
        |(process, origin, path, number, entry, content)| {
            let task = TaskId {
                process,
                origin,
                path,
            };
            Record::Receipt(Receipt {
                id: RequestId { task, number },
                entry: entry.id(),
                content,
            })
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    let member = || (number(), path()).prop_map(|(place, path)| Member { place, path });
    let value = prop::collection::vec(any::<u8>(), 0..20);
    let stream = prop_oneof![
        Just(StreamId::Request),
        Just(StreamId::Given),
        number().prop_map(StreamId::Answer)
    ];
    let payload = (member(), stream, value.clone());
    let primitive = (member(), number(), name(), value);
    prop_oneof![
        3 => receipt(),
        1 => primitive.prop_map(|(task, number, name, value)| Record::Primitive {
            task, number, name, value,
        }),
        1 => ((0u64..50).prop_map(NameId::from_hash), number()).prop_map(|(process, epoch)| {
            Record::Depends(Mark { process, epoch })
        }),
        1 => payload.prop_map(|(task, stream, part)| Record::Payload { task, stream, part }),
        1 => (member(), number()).prop_map(|(task, operations)| Record::Cancelled {
            task, operations,
        }),
    ]
}

fn encode(records: &[Record], own: &Name) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, LaneKind::Exclusive, own);
    for record in records {
        match record {
            Record::Define(..) | Record::Epoch(_) => unreachable!("not made"),
            Record::Receipt(receipt) => {
                let names = (0..5).map(|at| Name::new(&format!("name{at}")).unwrap());
                let name = names
                    .into_iter()
                    .find(|name| name.id() == receipt.entry)
                    .unwrap();
                encoder.receipt(&mut out, receipt, &name);
            }
            Record::Primitive {
                task,
                number,
                name,
                value,
            } => {
                encoder.primitive(&mut out, *task, *number, name, value);
            }
            Record::Depends(mark) => encoder.depends(&mut out, *mark),
            Record::Payload { task, stream, part } => {
                encoder.payload(&mut out, *task, *stream, part);
            }
            Record::Cancelled { task, operations } => {
                encoder.cancelled(&mut out, *task, *operations);
            }
        }
    }
    out
}

/// A tape of a run with everything in it.
fn recorded() -> Vec<u8> {
    let entry = |exclusive, script: &[Op]| Entry {
        process: 0,
        exclusive,
        script: script.to_vec(),
    };
    let root = [
        Op::Spawn(0),
        Op::Select(0, 1),
        Op::Nondet,
        Op::Call(1),
        Op::Send,
        Op::Wait,
    ];
    let program = Program {
        processes: 1,
        entries: vec![
            entry(false, &[Op::Locked, Op::Call(1), Op::Nondet]),
            entry(true, &[Op::Touch]),
        ],
        roots: vec![(0, root.to_vec()), (0, root.to_vec())],
    };
    let sessions = recording(&program, Keep::Payloads);
    let rng = Rng::new(1);
    let executor = Executor::new(Box::new(move |ready| rng.below(ready as u64) as usize));
    assert!(
        run(
            &program,
            sessions.clone(),
            executor,
            Delays::None,
            Executor::run_here
        )
        .0
    );
    tapes(&sessions).remove(0)
}

fn is_prefix(part: &[Lane], whole: &[Lane]) -> bool {
    part.len() <= whole.len()
        && part.iter().zip(whole).all(|(part, whole)| {
            (&part.name, part.kind) == (&whole.name, whole.kind)
                && whole.receipts.starts_with(&part.receipts)
                && part
                    .primitives
                    .iter()
                    .all(|(key, value)| whole.primitives.get(key) == Some(value))
                && part.payloads.iter().all(|(key, parts)| {
                    let whole = whole.payloads.get(key);
                    whole.is_some_and(|whole| whole.starts_with(parts))
                })
                && part
                    .cancelled
                    .iter()
                    .all(|(key, value)| whole.cancelled.get(key) == Some(value))
        })
}

#[test]
fn a_tape_that_is_cut_anywhere_is_read_up_to_there() {
    let bytes = recorded();
    let whole = Tape::parse(&bytes).unwrap();
    assert_eq!(whole.end, End::Closed);
    let mut read = 0;
    for len in 0..bytes.len() {
        if let Ok(part) = Tape::parse(&bytes[..len]) {
            assert!(matches!(part.end, End::Cut(at, _) if at <= len), "{len}");
            assert!(is_prefix(&part.lanes, &whole.lanes), "{len}");
            assert!(part.lanes.len() >= read, "nothing is lost by more bytes");
            read = part.lanes.len();
        }
    }
    assert_eq!(read, whole.lanes.len());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_is_read(records in prop::collection::vec(record(), 0..200)) {
        let own = Name::new("name0").unwrap();
        let bytes = encode(&records, &own);
        let mut read = Decoder::default().read(&bytes).unwrap();
        prop_assert_eq!(read.remove(0), Record::Define(LaneKind::Exclusive, own));
        prop_assert_eq!(read, records);
    }

    #[test]
    fn damage_is_noticed(
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = recorded();
        let whole = Tape::parse(&bytes).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        bytes.truncate(bytes.len() - cut.index(bytes.len()).min(bytes.len() - at - 1));
        if let Ok(part) = Tape::parse(&bytes) {
            prop_assert!(part.end != End::Closed);
            prop_assert!(is_prefix(&part.lanes, &whole.lanes));
        }
    }

    /// Frames of a stranger, with right checksums: nothing of them harms a reader or a replay.
    #[test]
    fn any_frames_are_read_or_refused(
        frames in prop::collection::vec(
            (0u32..4, prop::collection::vec(record(), 0..6), prop::collection::vec(
                (any::<prop::sample::Index>(), any::<u8>()), 0..3)),
            0..8,
        ),
        committed in any::<u64>(),
        ends in any::<bool>(),
    ) {
        let own = Name::new("p").unwrap();
        let mut file = tape::head(&own);
        for (lane, records, changes) in &frames {
            let name = Name::new(&format!("name{lane}")).unwrap();
            let mut bytes = encode(records, &name);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            let at = file.len() as u64;
            tape::frame(&mut file, at, *lane, &bytes);
        }
        let at = file.len() as u64;
        tape::commit(&mut file, at, committed);
        if ends {
            let at = file.len() as u64;
            tape::end(&mut file, at);
        }
        let open = || Tape::parse(&file).unwrap();
        let names: Vec<Name> = open().lanes.iter().map(|lane| lane.name.clone()).collect();
        let together = Session::replay_tapes(vec![open()], "p", None).unwrap();
        let alone = Session::replay_tape_alone(open(), None);
        for session in [Some(together), alone.ok()].into_iter().flatten() {
            for name in &names {
                let _ = session.root(name.as_str());
                let _ = session.entry_point(name.as_str());
                let _ = session.exclusive(name.as_str());
                let _ = session.lock(name.as_str(), ());
            }
            if let Some(mut requests) = session.requests() {
                // Whatever is due is given, or waited for; it never goes round in circles.
                for _ in 0..100 {
                    let mut next = std::pin::pin!(requests.next());
                    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
                    match next.as_mut().poll(&mut cx) {
                        std::task::Poll::Ready(Some(incoming)) => drop(incoming.bytes()),
                        _ => break,
                    }
                }
            }
        }
    }

    #[test]
    fn any_records_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut lane = Vec::new();
        let own = Name::new("name0").unwrap();
        Encoder::new(&mut lane, LaneKind::Entry, &own);
        lane.extend_from_slice(&bytes);
        let mut file = tape::head(&own);
        let at = file.len() as u64;
        tape::frame(&mut file, at, 0, &lane);
        let read = Tape::parse(&file).unwrap();
        prop_assert!(read.lanes.len() <= 1);
    }
}

#[test]
fn frames_have_their_place() {
    let own = Name::new("p").unwrap();
    let mut lane = Vec::new();
    Encoder::new(&mut lane, LaneKind::Entry, &own);
    let mut file = tape::head(&own);
    let at = file.len() as u64;
    tape::frame(&mut file, at + 1, 0, &lane);
    let read = Tape::parse(&file).unwrap();
    assert!(matches!(read.end, End::Cut(..)) && read.lanes.is_empty());
}
