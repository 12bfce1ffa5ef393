//! Shared by the tests: events that own their bytes, as plain text.

#![allow(dead_code, unused_imports, reason = "each test program uses a part")]

mod random;
mod sample;

pub use random::{event, events, number};
pub use sample::{sample, syscall};

use std::fmt::Write as _;

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
        Kind::Mark { event, pc } => write!(text, "mark of event {event} at {pc:#x}"),
        Kind::Behind {
            event,
            thread,
            mark,
        } => write!(text, "event {event} behind {mark} of {thread}"),
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
        asleep: false,
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
    manifest.sites = vec![7, u64::MAX];
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
