//! Arguments of packets: numbers, threads and bytes, expected and unexpected ones.

use relive_sched::Rng;

/// The data that a client may know of the program.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Addresses: code, stack, data.
    pub addresses: Vec<u64>,
    /// Thread ids, in the protocol's notation.
    pub threads: Vec<String>,
}

/// A number as a client may write it.
pub(super) fn number(random: &mut Rng, known: &Known) -> String {
    const EDGES: [u64; 14] = [
        0,
        1,
        8,
        0xfff,
        0xffff,
        0x10000,
        0x7fff_ffff,
        0xffff_ffff,
        1 << 47,
        0x5000_0000_0000,
        1 << 63,
        0x8000_0000_0000_0001,
        u64::MAX - 7,
        u64::MAX,
    ];
    match random.below(12) {
        0..5 => format!("{:x}", random.pick(&EDGES)),
        5..9 if !known.addresses.is_empty() => {
            let at = random.pick(&known.addresses);
            format!("{:x}", at.wrapping_add(random.below(32)))
        }
        9 => format!("{:x}", random.word()),
        10 => {
            (*random.pick(&["", "-1", "zz", "1ffffffffffffffff", "0x10", " 1", "1,1"])).to_owned()
        }
        _ => format!("{:x}", random.below(64)),
    }
}

pub(super) fn thread(random: &mut Rng, known: &Known) -> String {
    match random.below(4) {
        0 | 1 if !known.threads.is_empty() => random.pick(&known.threads).clone(),
        2 => {
            let (a, b) = (number(random, known), number(random, known));
            format!("p{a}.{b}")
        }
        _ => (*random.pick(&[
            "0",
            "-1",
            "p-1.-1",
            "p0.0",
            "p1",
            "ffffffffffffffff",
            "p.",
            "",
        ]))
        .to_owned(),
    }
}

pub(super) fn bytes(random: &mut Rng) -> Vec<u8> {
    let most = *random.pick(&[0, 1, 8, 64, 600, 4000]);
    (0..random.below(most + 1))
        .map(|_| random.word() as u8)
        .collect()
}

/// Escapes the bytes that may not stand in a packet.
pub(super) fn escaped(bytes: &[u8]) -> Vec<u8> {
    let special = |b: &u8| matches!(b, b'#' | b'$' | b'}' | b'*');
    let one = |b: &u8| {
        if special(b) {
            vec![b'}', b ^ 0x20]
        } else {
            vec![*b]
        }
    };
    bytes.iter().flat_map(one).collect()
}
