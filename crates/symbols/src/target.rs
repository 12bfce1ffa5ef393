//! The inspected program: its maps, its memory, and its threads' registers.

/// A map of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// First address.
    pub start: u64,
    /// One behind the last address.
    pub end: u64,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Whether it may be executed.
    pub executable: bool,
    /// Name in `/proc/self/maps`: for a file its path; else empty or in brackets.
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
    /// Takes them in the order in which instructions encode them: rax, rcx, rdx, rbx, rsp, rbp,
    /// rsi, rdi, r8 to r15.
    #[must_use]
    pub fn from_encoding(gpr: &[u64; 16], pc: u64) -> Self {
        const ORDER: [usize; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
        Self {
            general: ORDER.map(|i| gpr[i]),
            pc,
        }
    }
}

/// The inspected program.
pub trait Target {
    /// The maps, in order of addresses.
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
