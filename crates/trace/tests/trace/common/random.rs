//! Events at random.

use proptest::collection::vec;
use proptest::prelude::*;
use relive_trace::*;

use super::*;

fn tape_id() -> impl Strategy<Value = TapeId> {
    (number32(), number32()).prop_map(|(process, thread)| TapeId { process, thread })
}

/// Numbers of every length, edges included.
pub fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
}

fn number32() -> impl Strategy<Value = u32> {
    (any::<u32>(), 0u32..32).prop_map(|(value, shift)| value >> shift)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![3 => vec(any::<u8>(), 0..20), 1 => vec(any::<u8>(), 0..700)]
}

fn input_ref() -> impl Strategy<Value = InputRef> {
    (number(), number(), number()).prop_map(|(address, length, offset)| InputRef {
        address,
        length: (length / 2).max(1),
        offset: offset / 2,
    })
}

fn plain_kind() -> impl Strategy<Value = Kind<'static>> {
    let origin = prop_oneof![
        Just(Origin::Root),
        Just(Origin::Thread),
        Just(Origin::Fork),
        Just(Origin::Vfork)
    ];
    let how = prop_oneof![
        Just(Ending::ThreadExit),
        Just(Ending::ProcessExit),
        Just(Ending::Killed)
    ];
    prop_oneof![
        (origin, tape_id(), number32(), number32()).prop_map(|(origin, parent, tid, pid)| {
            Kind::Start(Start {
                origin,
                parent,
                tid,
                pid,
            })
        }),
        number32().prop_map(|steps| Kind::Switch { steps }),
        number32().prop_map(|thread| Kind::Turn { thread }),
        (number32(), number32(), proptest::option::of(number32())).prop_map(
            |(thread, process, turn)| Kind::Handover {
                thread,
                process,
                turn,
            }
        ),
        (number32(), proptest::option::of(number32()))
            .prop_map(|(process, turn)| Kind::After { process, turn }),
        (any::<u8>(), vec(number(), 0..=4)).prop_map(|(op, given)| {
            let mut values = [0; 4];
            values[..given.len()].copy_from_slice(&given);
            Kind::Instr {
                op,
                values,
                n: given.len() as u8,
            }
        }),
        (any::<bool>(), number(), number()).prop_map(|(event, since, took)| Kind::Moment {
            event,
            since,
            took
        }),
        (number(), any::<bool>(), number32(), number()).prop_map(|(at, event, thread, op)| {
            Kind::Edge {
                at,
                event,
                thread,
                op,
            }
        }),
        number().prop_map(|pc| Kind::Mark { event: false, pc }),
        Just(Kind::Mark { event: true, pc: 0 }),
        (any::<bool>(), number32(), number()).prop_map(|(event, thread, mark)| Kind::Behind {
            event,
            thread,
            mark
        }),
        (number(), any::<u64>()).prop_map(|(at, value)| Kind::Checksum { at, value }),
        (how, any::<i32>(), number32()).prop_map(|(how, code, steps)| Kind::End {
            how,
            code,
            steps
        }),
    ]
}

fn kind() -> impl Strategy<Value = OwnedKind> {
    let syscall = (
        number32(),
        vec(number(), 0..=6),
        any::<i64>(),
        any::<bool>(),
        proptest::option::of(number()),
        0u8..3,
    )
        .prop_map(|(nr, args, result, switched, order, stream)| Syscall {
            nr,
            args: Args::new(&args),
            result,
            switched,
            order,
            stream,
            writes: Writes::NONE,
            refs: Refs::NONE,
            extra: &[],
        });
    prop_oneof![
        2 => plain_kind().prop_map(OwnedKind::Plain),
        2 => (syscall, vec((number(), bytes()), 0..4), vec(input_ref(), 0..4), bytes()).prop_map(
            |(plain, writes, refs, extra)| OwnedKind::Syscall { plain, writes, refs, extra }
        ),
        1 => (number32(), any::<u8>(), bytes()).prop_map(
            |(steps, signo, siginfo)| OwnedKind::Signal { steps, signo, siginfo }
        ),
        1 => bytes().prop_map(OwnedKind::Exec),
        1 => vec((number(), bytes()), 1..4).prop_map(OwnedKind::Memory),
        1 => (number(), vec(reading(), 1..12)).prop_map(
            |(since, readings)| OwnedKind::Readings { full: false, since, readings }
        ),
        1 => (number(), vec(reading(), 0..12)).prop_map(
            |(since, readings)| OwnedKind::Readings { full: true, since, readings }
        ),
    ]
}

fn reading() -> impl Strategy<Value = Reading> {
    let source = 0..SOURCES as u8;
    let extra = prop_oneof![2 => Just(0), 1 => number32()];
    (prop_oneof![3 => 0u8..2, 1 => source], number(), extra).prop_map(|(source, value, extra)| {
        Reading {
            source,
            value,
            extra,
        }
    })
}

/// Any event, at any ticks, even decreasing ones.
pub fn event() -> impl Strategy<Value = Owned> {
    (number(), prop_oneof![Just(0), any::<u32>()], kind()).prop_map(|(ticks, digest, kind)| Owned {
        ticks,
        digest,
        kind,
    })
}

pub fn events() -> impl Strategy<Value = Vec<Owned>> {
    vec(event(), 0..20)
}
