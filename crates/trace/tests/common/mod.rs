//! Shared by the tests: events that own their bytes, as plain text, and at random.

#![allow(dead_code, reason = "each test program uses a part")]

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;
use relive_trace::*;

/// An event that owns its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Owned {
    pub ticks: u64,
    pub digest: u32,
    pub kind: OwnedKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum OwnedKind {
    /// Kinds without bytes.
    Plain(Kind<'static>),
    Syscall {
        /// Its writes, references and extra are empty.
        plain: Syscall<'static>,
        writes: Vec<(u64, Vec<u8>)>,
        refs: Vec<InputRef>,
        extra: Vec<u8>,
    },
    Signal {
        steps: u32,
        signo: u8,
        siginfo: Vec<u8>,
    },
    Exec(Vec<u8>),
    Memory(Vec<(u64, Vec<u8>)>),
    Readings {
        full: bool,
        since: u64,
        readings: Vec<Reading>,
    },
}

impl Owned {
    /// Lends the event.
    pub fn with<R>(&self, f: impl FnOnce(&Event<'_>) -> R) -> R {
        let slices: Vec<(u64, &[u8])>;
        let kind = match &self.kind {
            OwnedKind::Plain(kind) => *kind,
            OwnedKind::Syscall {
                plain,
                writes,
                refs,
                extra,
            } => {
                slices = writes.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
                Kind::Syscall(Syscall {
                    writes: Writes::new(&slices),
                    refs: Refs::new(refs),
                    extra,
                    ..*plain
                })
            }
            OwnedKind::Signal {
                steps,
                signo,
                siginfo,
            } => Kind::Signal(Signal {
                steps: *steps,
                signo: *signo,
                siginfo,
            }),
            OwnedKind::Exec(image) => Kind::Exec(image),
            OwnedKind::Memory(writes) => {
                slices = writes.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
                Kind::Memory(Writes::new(&slices))
            }
            OwnedKind::Readings {
                full,
                since,
                readings,
            } => Kind::Readings {
                full: *full,
                since: *since,
                readings: Readings::new(readings),
            },
        };
        f(&Event {
            ticks: self.ticks,
            digest: self.digest,
            kind,
        })
    }

    pub fn is(&self, event: &Event<'_>) -> bool {
        self.with(|own| own == event)
    }
}

/// The bytes of a tape with these events.
pub fn encode(events: &[Owned]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    let mut out = Vec::new();
    for event in events {
        event.with(|event| encoder.encode(event, &mut out));
    }
    out
}

/// One line for each event of a tape.
pub fn render(reader: &mut TapeReader) -> Result<String> {
    let mut text = String::new();
    while let Some(event) = reader.next()? {
        writeln!(text, "{}", line(&event)).unwrap();
    }
    Ok(text)
}

fn line(event: &Event<'_>) -> String {
    let mut text = format!("@{} #{:08x} ", event.ticks, event.digest);
    match event.kind {
        Kind::Start(s) => write!(
            text,
            "start {:?} by {} tid {} pid {}",
            s.origin, s.parent, s.tid, s.pid
        ),
        Kind::Syscall(s) => {
            write!(
                text,
                "syscall {} {:?} = {} switched {} order {:?} stream {}",
                s.nr, s.args, s.result, s.switched, s.order, s.stream
            )
            .unwrap();
            for (at, bytes) in &s.writes {
                write!(text, " [{at:#x}] {}", bytes.escape_ascii()).unwrap();
            }
            for r in &s.refs {
                write!(text, " [{:#x}] {} at {}", r.address, r.length, r.offset).unwrap();
            }
            write!(text, " extra {}", s.extra.escape_ascii())
        }
        Kind::Signal(s) => write!(
            text,
            "signal {} after {} with {}",
            s.signo,
            s.steps,
            s.siginfo.escape_ascii()
        ),
        Kind::Switch { steps } => write!(text, "switch after {steps}"),
        Kind::Instr { op, values, n } => write!(text, "instr {op} {values:?} of {n}"),
        Kind::Exec(image) => write!(text, "exec {}", image.escape_ascii()),
        Kind::Turn { thread } => write!(text, "turn {thread}"),
        Kind::Handover {
            thread,
            process,
            turn,
        } => write!(text, "turn {thread} after {turn:?} of {process}"),
        Kind::After { process, turn } => write!(text, "after {turn:?} of {process}"),
        Kind::Memory(writes) => {
            write!(text, "memory").unwrap();
            for (at, bytes) in &writes {
                write!(text, " [{at:#x}] {}", bytes.escape_ascii()).unwrap();
            }
            Ok(())
        }
        Kind::Readings {
            full,
            since,
            readings,
        } => {
            write!(text, "readings full {full} since {since}:").unwrap();
            for r in readings.to_vec() {
                write!(text, " {}={}/{}", r.source, r.value, r.extra).unwrap();
            }
            Ok(())
        }
        Kind::Moment { event, since, took } => {
            write!(text, "moment of event {event} since {since} took {took}")
        }
        Kind::Edge {
            at,
            event,
            thread,
            op,
        } => write!(text, "{at} of event {event} after {op} of {thread}"),
        Kind::Checksum { at, value } => write!(text, "checksum {at:#x} {value:#x}"),
        Kind::End { how, code, steps } => write!(text, "end {how:?} {code} after {steps}"),
    }
    .unwrap();
    text
}

pub fn summary() -> Summary {
    Summary {
        exit: ExitStatus::Code(3),
        processes: 1,
        threads: 1,
        events: 9,
        ticks: 70,
        raw_bytes: 0,
        stored_bytes: 0,
        wall_ms: 12,
    }
}

/// A manifest that is the same on every machine.
pub fn manifest() -> Manifest {
    let mut manifest = Manifest::new(
        vec!["/bin/prog".into(), Bytes(vec![b'a', 0xff])],
        "/home/user".into(),
        vec!["PATH=/bin".into(), Bytes(b"ODD=\xfe".to_vec())],
    );
    manifest.created = 1_700_000_000;
    manifest.relive = "0.1.0".into();
    manifest.page_size = 4096;
    manifest.system = System {
        name: "Linux".into(),
        release: "6.1.0".into(),
        version: "#1 SMP".into(),
        machine: "x86_64".into(),
    };
    manifest.cpu = Cpu {
        model: "Some Processor".into(),
        features: vec!["fpu".into(), "avx2".into()],
    };
    manifest
}

/// One event of each kind and of each optional part.
pub fn sample() -> Vec<Owned> {
    let at = |ticks, digest, kind| Owned {
        ticks,
        digest,
        kind,
    };
    let plain = |ticks, kind| at(ticks, 0, OwnedKind::Plain(kind));
    let syscall = Syscall {
        nr: 0,
        args: Args::new(&[3, 0x7fff_1234, 16]),
        result: 5,
        switched: false,
        order: None,
        stream: 0,
        writes: Writes::NONE,
        refs: Refs::NONE,
        extra: &[],
    };
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

pub fn image() -> Image {
    Image {
        path: b"/bin/prog".to_vec(),
        argv: vec![b"prog".to_vec(), b"a\xff".to_vec()],
        env: vec![b"PATH=/bin".to_vec()],
        maps: vec![
            MapOp {
                addr: 0x40_0000,
                len: 0x1000,
                prot: 5,
                kind: MapKind::File {
                    file: FileId([7; 32]),
                    offset: 0x2000,
                },
                name: "/bin/prog".into(),
            },
            MapOp {
                addr: 0x7fff_0000,
                len: 0x2_0000,
                prot: 3,
                kind: MapKind::Anon,
                name: "[stack]".into(),
            },
        ],
        writes: vec![(0x7fff_ff00, vec![1, 2, 3])],
        rip: 0x40_0123,
        rsp: 0x7fff_ff00,
        brk: 0x60_0000,
        streams: vec![StreamFd { fd: 1, stream: 1 }],
    }
}

pub fn image_bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    image().encode(&mut bytes);
    bytes
}

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
        1 => (any::<bool>(), number(), vec(reading(), 1..12)).prop_map(
            |(full, since, readings)| OwnedKind::Readings { full, since, readings }
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
