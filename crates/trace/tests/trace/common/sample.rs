//! One event of each kind.

use relive_trace::*;

use super::*;

/// A call with nothing but its arguments and its result.
pub fn syscall(nr: u32, args: &[u64], result: i64) -> Syscall<'static> {
    Syscall {
        nr,
        args: Args::new(args),
        result,
        switched: false,
        order: None,
        stream: 0,
        writes: Writes::NONE,
        refs: Refs::NONE,
        extra: &[],
    }
}

/// One event of each kind and of each optional part.
pub fn sample() -> Vec<Owned> {
    let at = |ticks, digest, kind| Owned {
        ticks,
        digest,
        kind,
    };
    let plain = |ticks, kind| at(ticks, 0, OwnedKind::Plain(kind));
    let syscall = syscall(0, &[3, 0x7fff_1234, 16], 5);
    vec![
        plain(
            0,
            Kind::Start(Start {
                origin: Origin::Root,
                parent: TapeId::new(0, 0),
                tid: 4242,
                pid: 4242,
            }),
        ),
        plain(0, Kind::Turn { thread: 0 }),
        at(0, 0, OwnedKind::Exec(image_bytes())),
        at(
            7,
            0xdead_beef,
            OwnedKind::Syscall {
                plain: syscall,
                writes: vec![(0x7fff_1234, b"hello".to_vec()), (8, vec![])],
                refs: vec![],
                extra: b"hook".to_vec(),
            },
        ),
        at(
            9,
            1,
            OwnedKind::Syscall {
                plain: Syscall {
                    nr: 1,
                    args: Args::new(&[1, 2, 3, 4, 5, u64::MAX]),
                    result: -11,
                    switched: true,
                    order: Some(300),
                    stream: 2,
                    ..syscall
                },
                writes: vec![],
                refs: vec![InputRef {
                    address: 0x7000,
                    length: 26,
                    offset: 10,
                }],
                extra: vec![],
            },
        ),
        at(
            40,
            0,
            OwnedKind::Signal {
                steps: 24,
                signo: 11,
                siginfo: b"\x0b\0\0\0".to_vec(),
            },
        ),
        plain(50, Kind::Switch { steps: 300 }),
        plain(
            60,
            Kind::Instr {
                op: 2,
                values: [1, 1 << 63, 0, 0],
                n: 2,
            },
        ),
        plain(
            60,
            Kind::Handover {
                thread: 1,
                process: 300,
                turn: Some(0),
            },
        ),
        plain(
            60,
            Kind::Handover {
                thread: 1,
                process: 2,
                turn: None,
            },
        ),
        plain(
            60,
            Kind::After {
                process: 7,
                turn: Some(128),
            },
        ),
        at(
            60,
            0,
            OwnedKind::Memory(vec![(0x1000, b"shared".to_vec()), (0x2000, vec![])]),
        ),
        at(
            60,
            0,
            OwnedKind::Readings {
                full: false,
                since: 3,
                readings: readings(),
            },
        ),
        at(
            60,
            0x77,
            OwnedKind::Readings {
                full: true,
                since: 0,
                readings: readings(),
            },
        ),
        plain(
            60,
            Kind::Moment {
                event: false,
                since: 1 << 40,
                took: 0,
            },
        ),
        plain(
            60,
            Kind::Moment {
                event: true,
                since: 300,
                took: 70_000,
            },
        ),
        plain(
            60,
            Kind::Edge {
                at: 200,
                event: false,
                thread: 3,
                op: 1,
            },
        ),
        plain(
            60,
            Kind::Edge {
                at: 201,
                event: true,
                thread: 0,
                op: 1 << 20,
            },
        ),
        plain(
            61,
            Kind::Checksum {
                at: 0x1000,
                value: 0x0123_4567_89ab_cdef,
            },
        ),
        plain(
            70,
            Kind::End {
                how: Ending::ProcessExit,
                code: -3,
                steps: 1,
            },
        ),
    ]
}

/// Groups of one and of several, with second values and without, going back too.
fn readings() -> Vec<Reading> {
    let reading = |source, value, extra| Reading {
        source,
        value,
        extra,
    };
    vec![
        reading(17, 5_000_000_000, 0),
        reading(17, 5_000_000_025, 0),
        reading(17, 5_000_000_020, 0),
        reading(0, 1 << 40, 0),
        reading(1, u64::MAX, 3),
        reading(1, 0, 0),
        reading(17, 5_000_000_050, 0),
    ]
}
