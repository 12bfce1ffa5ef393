//! Registers in gdb's layout: the order and sizes of its own target descriptions for x86-64 Linux,
//! with a shorter list for processors without AVX-512 or AVX.

use gdbstub::arch::{Arch, RegId, Registers};
use relive_engine::timeline::Registers as Guest;

/// x86-64 Linux with all registers that the recording processor may have had.
pub enum Amd64 {}

impl Arch for Amd64 {
    type Usize = u64;
    type Registers = Block;
    type RegId = Number;
    type BreakpointKind = usize;
}

/// gdb's number of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(pub usize);

impl RegId for Number {
    fn from_raw_id(id: usize) -> Option<(Self, Option<std::num::NonZeroUsize>)> {
        Some((Self(id), None))
    }
}

/// All registers in gdb's order, as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block(pub Vec<u8>);

impl Registers for Block {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.0
            .get(128..136)
            .and_then(|b| b.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        self.0.iter().for_each(|b| write_byte(Some(*b)));
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.0 = bytes.to_vec();
        Ok(())
    }
}

/// The place of a register's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A general register by its encoding number.
    Gpr(usize),
    Rip,
    Rflags,
    FsBase,
    /// A constant, which the program cannot change.
    Fixed(u64),
    /// Bytes of an XSAVE component at an offset of the standard format (Intel SDM vol. 1, 13.4;
    /// each processor defines the places of the components behind SSE).
    Xsave(u32, usize),
    /// The x87 tag word, which the area holds in abridged form.
    Tags,
}

/// One register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    pub name: String,
    /// Bytes.
    pub size: usize,
    /// gdb's type.
    pub kind: &'static str,
    pub place: Place,
}

/// A group that gdb knows by name.
pub struct Feature {
    pub name: &'static str,
    pub registers: Vec<Register>,
}

/// AVX in XCR0.
pub const AVX: u64 = 1 << 2;
/// The three components of AVX-512 in XCR0.
pub const AVX512: u64 = 7 << 5;

fn one(name: impl Into<String>, size: usize, kind: &'static str, place: Place) -> Register {
    Register {
        name: name.into(),
        size,
        kind,
        place,
    }
}

/// `n` registers whose values lie at equal distances.
fn row(
    names: impl Fn(usize) -> String,
    n: usize,
    size: usize,
    kind: &'static str,
    component: u32,
    start: usize,
    distance: usize,
) -> Vec<Register> {
    (0..n)
        .map(|i| {
            one(
                names(i),
                size,
                kind,
                Place::Xsave(component, start + i * distance),
            )
        })
        .collect()
}

/// The registers of a processor with these components of extended state at these places, in
/// gdb's order (features/i386/64bit-*.xml of gdb).
pub fn features(components: u64, places: &[(usize, usize); 8]) -> Vec<Feature> {
    const GENERAL: [(&str, usize); 16] = [
        ("rax", 0),
        ("rbx", 3),
        ("rcx", 1),
        ("rdx", 2),
        ("rsi", 6),
        ("rdi", 7),
        ("rbp", 5),
        ("rsp", 4),
        ("r8", 8),
        ("r9", 9),
        ("r10", 10),
        ("r11", 11),
        ("r12", 12),
        ("r13", 13),
        ("r14", 14),
        ("r15", 15),
    ];
    // As Linux sets them for 64-bit programs.
    const SEGMENTS: [(&str, u64); 6] = [
        ("cs", 0x33),
        ("ss", 0x2b),
        ("ds", 0),
        ("es", 0),
        ("fs", 0),
        ("gs", 0),
    ];
    let mut core: Vec<Register> = GENERAL
        .iter()
        .map(|&(name, n)| {
            let kind = if matches!(name, "rbp" | "rsp") {
                "data_ptr"
            } else {
                "int64"
            };
            one(name, 8, kind, Place::Gpr(n))
        })
        .collect();
    core.push(one("rip", 8, "code_ptr", Place::Rip));
    core.push(one("eflags", 4, "i386_eflags", Place::Rflags));
    core.extend(
        SEGMENTS
            .iter()
            .map(|&(name, value)| one(name, 4, "int32", Place::Fixed(value))),
    );
    core.extend(row(|i| format!("st{i}"), 8, 10, "i387_ext", 0, 32, 16));
    // FCW, FSW, tags; the pointers of the last x87 instruction are always 0 here; FOP.
    for (name, place) in [
        ("fctrl", Place::Xsave(0, 0)),
        ("fstat", Place::Xsave(0, 2)),
        ("ftag", Place::Tags),
        ("fiseg", Place::Fixed(0)),
        ("fioff", Place::Fixed(0)),
        ("foseg", Place::Fixed(0)),
        ("fooff", Place::Fixed(0)),
        ("fop", Place::Xsave(0, 6)),
    ] {
        core.push(one(name, 4, "int", place));
    }
    let mut sse = row(|i| format!("xmm{i}"), 16, 16, "vec128", 1, 160, 16);
    sse.push(one("mxcsr", 4, "i386_mxcsr", Place::Xsave(1, 24)));
    let mut all = vec![
        Feature {
            name: "org.gnu.gdb.i386.core",
            registers: core,
        },
        Feature {
            name: "org.gnu.gdb.i386.sse",
            registers: sse,
        },
        Feature {
            name: "org.gnu.gdb.i386.linux",
            registers: vec![one("orig_rax", 8, "int", Place::Fixed(u64::MAX))],
        },
        Feature {
            name: "org.gnu.gdb.i386.segments",
            registers: vec![
                one("fs_base", 8, "int", Place::FsBase),
                one("gs_base", 8, "int", Place::Fixed(0)),
            ],
        },
    ];
    if components & AVX != 0 {
        all.push(Feature {
            name: "org.gnu.gdb.i386.avx",
            registers: row(
                |i| format!("ymm{i}h"),
                16,
                16,
                "uint128",
                2,
                places[2].0,
                16,
            ),
        });
    }
    if components & AVX512 == AVX512 {
        let (masks, high, upper) = (places[5].0, places[6].0, places[7].0);
        let mut wide = row(|i| format!("xmm{}", i + 16), 16, 16, "vec128", 7, upper, 64);
        wide.extend(row(
            |i| format!("ymm{}h", i + 16),
            16,
            16,
            "uint128",
            7,
            upper + 16,
            64,
        ));
        wide.extend(row(|i| format!("k{i}"), 8, 8, "uint64", 5, masks, 8));
        wide.extend(row(|i| format!("zmm{i}h"), 16, 32, "v2ui128", 6, high, 32));
        wide.extend(row(
            |i| format!("zmm{}h", i + 16),
            16,
            32,
            "v2ui128",
            7,
            upper + 32,
            64,
        ));
        all.push(Feature {
            name: "org.gnu.gdb.i386.avx512",
            registers: wide,
        });
    }
    all
}

/// A register's bytes.
pub fn value(register: &Register, guest: &Guest) -> Vec<u8> {
    let word = match register.place {
        Place::Gpr(n) => guest.gpr[n],
        Place::Rip => guest.rip,
        Place::Rflags => guest.rflags,
        Place::FsBase => guest.fs_base,
        Place::Fixed(value) => value,
        Place::Tags => u64::from(tags(guest)),
        Place::Xsave(_, at) => {
            // The x87 control words have two bytes, which gdb widens.
            let stored = if matches!(register.kind, "int") {
                2
            } else {
                register.size
            };
            let mut bytes = guest.xsave[at..at + stored].to_vec();
            bytes.resize(register.size, 0);
            return bytes;
        }
    };
    word.to_le_bytes()[..register.size].to_vec()
}

/// Sets a register. `false`: it cannot be set, or the bytes are too few.
pub fn set(register: &Register, guest: &mut Guest, bytes: &[u8]) -> bool {
    if bytes.len() < register.size {
        return false;
    }
    let mut word = [0; 8];
    let n = register.size.min(8);
    word[..n].copy_from_slice(&bytes[..n]);
    let word = u64::from_le_bytes(word);
    match register.place {
        Place::Gpr(n) => guest.gpr[n] = word,
        Place::Rip => guest.rip = word,
        Place::Rflags => guest.rflags = word,
        Place::FsBase => guest.fs_base = word,
        // gdb writes whole blocks; constant registers keep their values.
        Place::Fixed(_) | Place::Tags => {}
        Place::Xsave(component, at) => {
            let stored = if register.kind == "int" {
                2
            } else {
                register.size
            };
            guest.set_component(component, at, &bytes[..stored]);
        }
    }
    true
}

/// The tag word in full: 3 for an empty register, 0 otherwise (gdb looks at values itself).
fn tags(guest: &Guest) -> u16 {
    let short = guest.xsave[4];
    (0..8)
        .filter(|i| short >> i & 1 == 0)
        .fold(0, |tags, i| tags | 3 << (2 * i))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Intel's processors have them, and as AMD's do, without room for bounds registers.
    const INTEL: [(usize, usize); 8] = [
        (0, 0),
        (0, 0),
        (576, 832),
        (960, 1024),
        (1024, 1088),
        (1088, 1152),
        (1152, 1664),
        (1664, 2688),
    ];
    const AMD: [(usize, usize); 8] = [
        (0, 0),
        (0, 0),
        (576, 832),
        (0, 0),
        (0, 0),
        (832, 896),
        (896, 1408),
        (1408, 2432),
    ];

    fn guest() -> Guest {
        Guest {
            gpr: std::array::from_fn(|i| i as u64 + 100),
            rip: 0x401000,
            rflags: 0x246,
            fs_base: 7,
            xsave: (0..2752).map(|i| i as u8).collect(),
        }
    }

    #[test]
    fn the_block_has_gdbs_size() {
        // i386_linux: amd64 with AVX-512, as gdb's own descriptions add up.
        let size = |components| -> usize {
            let all = features(components, &INTEL);
            all.iter().flat_map(|f| &f.registers).map(|r| r.size).sum()
        };
        assert_eq!(size(3), 276 + 260 + 8 + 16);
        assert_eq!(size(7), size(3) + 256);
        assert_eq!(size(0xe7), size(7) + 64 + 512 + 256 + 256 + 512);
    }

    #[test]
    fn what_is_set_is_read_back() {
        for places in [INTEL, AMD] {
            each_is_read_back(&places);
        }
    }

    fn each_is_read_back(places: &[(usize, usize); 8]) {
        let mut g = guest();
        for r in features(0xe7, places).iter().flat_map(|f| &f.registers) {
            if let Place::Xsave(component @ 2.., at) = r.place {
                let (from, to) = places[component as usize];
                assert!(from <= at && at + r.size <= to, "{}", r.name);
            }
            let new: Vec<u8> = (0..r.size).map(|i| 0x11 * (i as u8 % 15)).collect();
            assert!(set(r, &mut g, &new), "{}", r.name);
            let read = value(r, &g);
            assert_eq!(read.len(), r.size, "{}", r.name);
            match r.place {
                Place::Fixed(_) | Place::Tags => {}
                _ if r.kind == "int" && r.size == 4 => assert_eq!(read[..2], new[..2]),
                _ => assert_eq!(read, new, "{}", r.name),
            }
            assert!(!set(r, &mut g, &new[1..]));
        }
    }
}
