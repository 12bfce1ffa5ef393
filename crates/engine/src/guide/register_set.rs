//! Registers of a guest thread as they travel between processes.

use relive_host::context::XSAVE_BYTES;

/// The components of extended state that a guest has on this processor, as bits of XCR0.
#[must_use]
pub fn vector_state() -> u64 {
    relive_host::cpu::xcr0() & relive_host::cpu::XSAVE_MASK
}

/// Where each component lies in the standard-format XSAVE area of this processor: first byte, and
/// the one behind. Empty where there is none.
#[must_use]
pub fn vector_places() -> [(usize, usize); 8] {
    relive_host::cpu::xsave_layout().ranges
}

/// All registers of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers {
    /// General registers in encoding order (rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8…).
    pub gpr: [u64; 16],
    /// Program counter.
    pub rip: u64,
    /// RFLAGS. Flags that the program will certainly overwrite before it reads them are 0.
    pub rflags: u64,
    /// FS base.
    pub fs_base: u64,
    /// A standard-format XSAVE area.
    pub xsave: Vec<u8>,
}

impl Registers {
    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.gpr
            .iter()
            .chain([&self.rip, &self.rflags, &self.fs_base])
            .flat_map(|v| v.to_le_bytes())
            .chain(self.xsave.iter().copied())
            .collect()
    }

    /// From bytes; `None` if they are of another length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        const WORDS: usize = 19;
        let (words, xsave) = bytes.split_at_checked(8 * WORDS)?;
        if xsave.len() != XSAVE_BYTES {
            return None;
        }
        let mut words = words
            .chunks_exact(8)
            .map(|b| u64::from_le_bytes(b.try_into().unwrap_or_default()));
        let mut next = || words.next().unwrap_or_default();
        Some(Self {
            gpr: std::array::from_fn(|_| next()),
            rip: next(),
            rflags: next(),
            fs_base: next(),
            xsave: xsave.to_vec(),
        })
    }

    /// The bytes of XSAVE component `n` at `offset`, zeros where the component is in its
    /// initial state.
    #[must_use]
    pub fn component<const N: usize>(&self, n: u32, offset: usize) -> [u8; N] {
        let mut bv = [0; 8];
        bv.copy_from_slice(&self.xsave[512..520]);
        let mut out = [0; N];
        if u64::from_le_bytes(bv) >> n & 1 == 1 {
            out.copy_from_slice(&self.xsave[offset..offset + N]);
        }
        out
    }

    /// Sets bytes of XSAVE component `n`.
    pub fn set_component(&mut self, n: u32, offset: usize, bytes: &[u8]) {
        let at = 512 + n as usize / 8;
        self.xsave[at] |= 1 << (n % 8);
        self.xsave[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}
