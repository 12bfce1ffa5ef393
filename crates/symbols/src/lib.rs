//! Names, lines and call stacks of a recorded program.
//!
//! A [`Target`] says what is mapped where and gives memory and registers. Which file a map
//! shows is decided by content alone, never by a path: the bytes of its first page, as the
//! program sees them, must be those of the file ([`Finder`]). Separate debug information must
//! have the same build id, or the checksum that the file names. So a name that is shown is one of the very program that ran.
//!
//! All of this is foreign data. Nothing here may panic, loop without end or use unbounded
//! memory because of it: what makes no sense has no name.

#![forbid(unsafe_code)]

mod dwarf;
mod evaluate;
mod find;
mod function;
mod inflate;
mod module;
mod names;
mod passing;
mod passing_rust;
mod path;
mod short;
mod sources;
mod space;
mod tls;
mod types;
mod units;
mod unwind;
mod value;
mod variable;

pub use dwarf::Companion;
pub use evaluate::{View, Where};
pub use find::Finder;
pub use function::{Argument, Function};
pub use module::{Kind, Line, Module, Symbol, build_id};
pub use sources::sources;
pub use space::{Found, Named, Space};
pub use types::Type;
pub use unwind::{Frame, How, MOST_FRAMES, unwind, view};
pub use value::Passing;
pub use variable::{Missing, Variable};

/// A map of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// First address.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Whether it may be executed.
    pub executable: bool,
    /// What `/proc/self/maps` calls it: for a file its path; else empty or in brackets.
    pub name: String,
}

/// General registers of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// In the order of DWARF (System V ABI for x86-64, 3.6.2): rax, rdx, rcx, rbx, rsi, rdi,
    /// rbp, rsp, r8 to r15.
    pub general: [u64; 16],
    /// Program counter.
    pub pc: u64,
}

impl Registers {
    /// From the order in which instructions encode them: rax, rcx, rdx, rbx, rsp, rbp, rsi,
    /// rdi, r8 to r15.
    #[must_use]
    pub fn from_encoding(gpr: &[u64; 16], pc: u64) -> Self {
        const ORDER: [usize; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
        Self {
            general: ORDER.map(|i| gpr[i]),
            pc,
        }
    }
}

/// What is looked at.
pub trait Target {
    /// What is mapped, in order of addresses.
    fn maps(&mut self) -> Vec<Map>;

    /// Reads memory; `false` if not all of it is there.
    fn read(&mut self, addr: u64, bytes: &mut [u8]) -> bool;

    /// Reads a word.
    fn word(&mut self, addr: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(addr, &mut bytes)
            .then(|| u64::from_le_bytes(bytes))
    }
}
