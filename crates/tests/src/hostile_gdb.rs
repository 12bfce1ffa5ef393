//! The packets of a hostile client of the remote protocol: every kind that a server may know, with
//! unexpected arguments, in any order, damaged and cut. All random choices come from [`Rng`], so
//! that a seed names a session.
//!
//! Nothing here asks the server to end (`k`, `vKill`): that is every client's right.

pub mod choices;

use choices::{Known, bytes, escaped, number, thread};

use crate::gdb_client::{hex, packet};
use relive_sched::Rng;

/// Agent expressions that end badly or not at all.
const EXPRESSIONS: [&[u8]; 10] = [
    b"",
    b"\x27",
    // Loops: for ever, and with a growing stack.
    b"\x21\x00\x00",
    b"\x22\x01\x21\x00\x00",
    // Division by zero, and of the least number by -1.
    b"\x22\x01\x22\x00\x05\x27",
    b"\x25\x80\x00\x00\x00\x00\x00\x00\x00\x22\x00\x12\x05\x27",
    // Reads of unmapped memory, and where the server's own memory might be.
    b"\x25\xff\xff\xff\xff\xff\xff\xff\xff\x1a\x27",
    b"\x25\x00\x00\x7f\xff\x00\x00\x00\x00\x1a\x27",
    // A shift by too much, an unknown operation, a jump out.
    b"\x22\x01\x22\xff\x09\x16\xff\x27",
    b"\xff\x21\xff\xff",
];

fn actions(random: &mut Rng, known: &Known) -> String {
    let mut text = String::from("vCont");
    for _ in 0..1 + random.below(4) {
        let action = match random.below(7) {
            0 => "c".to_owned(),
            1 => "s".to_owned(),
            2 => format!("C{:02x}", random.below(256)),
            3 => format!("S{:02x}", random.below(256)),
            4 => "t".to_owned(),
            5 => format!("r{},{}", number(random, known), number(random, known)),
            _ => number(random, known),
        };
        text = format!("{text};{action}");
        if !random.one_in(3) {
            text = format!("{text}:{}", thread(random, known));
        }
    }
    text
}

fn breakpoint(random: &mut Rng, known: &Known) -> String {
    let set = if random.one_in(4) { 'z' } else { 'Z' };
    let kind = random.below(6);
    let mut text = format!(
        "{set}{kind},{},{}",
        number(random, known),
        number(random, known)
    );
    if random.one_in(2) {
        text.push(';');
        for _ in 0..1 + random.below(3) {
            let code = match random.one_in(4) {
                true => bytes(random),
                false => random.pick(&EXPRESSIONS).to_vec(),
            };
            let len = if random.one_in(5) {
                number(random, known)
            } else {
                format!("{:x}", code.len())
            };
            text = format!("{text}X{len},{}", hex(&code));
        }
        if random.one_in(3) {
            text.push_str(";cmds:1,X1,27");
        }
    }
    text
}

fn file(random: &mut Rng, known: &Known) -> Vec<u8> {
    const PATHS: [&str; 6] = [
        "/etc/passwd",
        "/proc/self/mem",
        "../../../etc/passwd",
        "",
        "/",
        "libc.so.6",
    ];
    let mut path = random.pick(&PATHS).as_bytes().to_vec();
    if random.one_in(8) {
        path = bytes(random);
    }
    let n = |random: &mut Rng| number(random, known);
    match random.below(8) {
        0 | 1 => format!("vFile:open:{},{},{}", hex(&path), n(random), n(random)),
        2 => format!("vFile:close:{}", n(random)),
        3 => format!("vFile:pread:{},{},{}", n(random), n(random), n(random)),
        4 => format!("vFile:fstat:{}", n(random)),
        5 => format!("vFile:readlink:{}", hex(&path)),
        6 => format!("vFile:unlink:{}", hex(&path)),
        _ => {
            return [
                format!("vFile:pwrite:{},{},", n(random), n(random)).into_bytes(),
                escaped(&bytes(random)),
            ]
            .concat();
        }
    }
    .into_bytes()
}

fn monitor(random: &mut Rng, known: &Known) -> String {
    let decimal = |random: &mut Rng| match random.below(3) {
        0 => u64::MAX,
        1 => random.word(),
        _ => random.below(500),
    };
    let addr = number(random, known);
    let command = match random.below(9) {
        0 => format!(
            "goto {}",
            random.pick(&["start", "end", "crash", "nowhere"])
        ),
        1 => format!("goto {}", decimal(random)),
        2 => format!("goto tick {}", decimal(random)),
        3 => format!("last-write 0x{addr} {}", decimal(random)),
        4 => format!("last-write 0x{addr}"),
        5 => format!("calls 0x{addr} {}", decimal(random)),
        6 => (*random.pick(&["position", "snapshots", "files", "announce", ""])).to_owned(),
        7 => String::from_utf8_lossy(&bytes(random)).into_owned(),
        _ => "goto start".to_owned(),
    };
    format!("qRcmd,{}", hex(command.as_bytes()))
}

fn transfer(random: &mut Rng, known: &Known) -> String {
    const OBJECTS: [&str; 8] = [
        "features",
        "auxv",
        "exec-file",
        "memory-map",
        "threads",
        "libraries-svr4",
        "siginfo",
        "nothing",
    ];
    let object = random.pick(&OBJECTS);
    let annex = random.pick(&["", "target.xml", "1", "../x"]);
    format!(
        "qXfer:{object}:read:{annex}:{},{}",
        number(random, known),
        number(random, known)
    )
}

fn registers(random: &mut Rng, known: &Known) -> String {
    match random.below(5) {
        0 => "g".to_owned(),
        1 => format!("G{}", hex(&bytes(random))),
        // Whole blocks: every register gets a value that it can hardly have.
        2 => format!("G{}", random.pick(&["f", "0", "8"]).repeat(2 * 2752)),
        3 => format!("p{}", number(random, known)),
        _ => {
            let value = *random.pick(&[
                "ffffffffffffffff",
                "0000000000000080",
                "00",
                "zz",
                "0000000000000000",
            ]);
            let which = random.below(80);
            format!("P{which:x}={}", value.repeat(1 + random.below(4) as usize))
        }
    }
}

fn memory(random: &mut Rng, known: &Known) -> Vec<u8> {
    let (at, len) = (number(random, known), number(random, known));
    match random.below(4) {
        0 | 1 => format!("m{at},{len}").into_bytes(),
        2 => format!("M{at},{len}:{}", hex(&bytes(random))).into_bytes(),
        _ => {
            let data = bytes(random);
            let len = if random.one_in(3) {
                len
            } else {
                format!("{:x}", data.len())
            };
            [format!("X{at},{len}:").into_bytes(), escaped(&data)].concat()
        }
    }
}

fn other(random: &mut Rng, known: &Known) -> Vec<u8> {
    const PLAIN: [&str; 30] = [
        "?",
        "!",
        "bc",
        "bs",
        "c",
        "s",
        "D",
        "R00",
        "qC",
        "qfThreadInfo",
        "qsThreadInfo",
        "qAttached",
        "qOffsets",
        "qSymbol::",
        "vCont?",
        "vMustReplyEmpty",
        "QStartNoAckMode",
        "QCatchSyscalls:0",
        "QCatchSyscalls:1",
        "QThreadEvents:1",
        "qSupported",
        "qTStatus",
        "vRun;",
        "vRun;2f",
        "QNonStop:1",
        "QPassSignals:e;10",
        "i",
        "",
        "vFlashErase:0,10",
        "qSearch:memory:0;ffffffffffffffff;00",
    ];
    let n = number(random, known);
    match random.below(10) {
        0..4 => (*random.pick(&PLAIN)).to_owned(),
        4 => format!(
            "H{}{}",
            random.pick(&["g", "c", "x"]),
            thread(random, known)
        ),
        5 => format!("T{}", thread(random, known)),
        6 => format!(
            "{}{n}",
            random.pick(&[
                "C",
                "S",
                "c",
                "s",
                "vAttach;",
                "D;",
                "qAttached:",
                "qThreadExtraInfo,"
            ])
        ),
        7 => format!("QCatchSyscalls:1;{n};{n}"),
        8 => {
            let module = number(random, known);
            format!("qGetTLSAddr:{},{n},{module}", thread(random, known))
        }
        _ => return bytes(random),
    }
    .into_bytes()
}

/// The body of one packet.
fn body(random: &mut Rng, known: &Known) -> Vec<u8> {
    let body = match random.below(10) {
        0 => actions(random, known).into_bytes(),
        1 => breakpoint(random, known).into_bytes(),
        2 => file(random, known),
        3 => monitor(random, known).into_bytes(),
        4 => transfer(random, known).into_bytes(),
        5 => registers(random, known).into_bytes(),
        6 | 7 => memory(random, known),
        _ => other(random, known),
    };
    // Packets that end the server are left out, and bytes that would end the packet here.
    match body.first() {
        Some(b'k') => Vec::new(),
        _ if body.starts_with(b"vKill") => Vec::new(),
        _ => body
            .into_iter()
            .filter(|b| !matches!(b, b'$' | b'#'))
            .collect(),
    }
}

/// Damages a packet on its way.
fn damage(random: &mut Rng, whole: &mut Vec<u8>) {
    let at = random.below(whole.len() as u64) as usize;
    match random.below(5) {
        0 => whole.truncate(at),
        1 => whole[at] ^= 1 << random.below(8),
        2 => whole.insert(at, 3),
        3 => whole.insert(at, *random.pick(b"+-#}*")),
        _ => {
            let long = vec![*random.pick(b"a0}*"); *random.pick(&[70_000, 200_000, 1_200_000])];
            whole.splice(at..at, long);
        }
    }
}

/// A whole session, in pieces: between two of them the client may wait.
#[must_use]
pub fn session(random: &mut Rng, known: &Known) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    if random.one_in(2) {
        pieces.push(packet(b"qSupported:multiprocess+;swbreak+;vContSupported+"));
    }
    if random.one_in(3) {
        pieces.push(packet(b"QStartNoAckMode"));
    }
    for _ in 0..1 + random.below(24) {
        let mut whole = packet(&body(random, known));
        if random.one_in(8) {
            damage(random, &mut whole);
        }
        // A damaged packet must not become one that ends the server.
        if whole.windows(2).any(|w| w == b"$k") || whole.windows(6).any(|w| w == b"$vKill") {
            continue;
        }
        if random.one_in(8) {
            // An interruption, as while the program runs.
            whole.push(3);
        }
        pieces.push(whole);
    }
    pieces
}
