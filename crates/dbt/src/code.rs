//! The translator's access to guest code: a trait that its user implements, so that page
//! permissions are decided in one place. Nothing here dereferences a guest address.

use relive_host::GuestAddr;

/// Executable guest memory.
pub trait Code {
    /// Copies executable guest memory from `pc` on into `buf` and returns how many bytes
    /// there are before the first one that is not mapped executable (0: none).
    ///
    /// Every translation depends on bytes that were fetched for it: a change of fetched
    /// bytes must be followed by [`crate::Translator::invalidate`].
    fn fetch(&self, pc: GuestAddr, buf: &mut [u8; 16]) -> usize;

    /// Whether only a system call of the guest can change the code at `pc`: its memory is not
    /// writable for any process.
    fn lasting(&self, pc: GuestAddr) -> bool;

    /// An access of this site ([`crate::Sites`]) is being translated as an ordered one.
    fn meets(&self, _site: u64) {}
}

/// Whether the program may write to an instruction without a call.
pub(crate) fn is_written(code: &dyn Code, pc: u64, next: u64) -> bool {
    let lasts = |at: u64| code.lasting(GuestAddr(at));
    !lasts(pc) || !lasts(next.wrapping_sub(1))
}

/// The next `len` bytes, or as many as there are before the first one that is not executable.
pub(crate) fn fetch(code: &dyn Code, pc: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len.next_multiple_of(16));
    let mut part = [0; 16];
    while bytes.len() < len {
        let at = pc.wrapping_add(bytes.len() as u64);
        let got = code.fetch(GuestAddr(at), &mut part).min(16);
        bytes.extend_from_slice(&part[..got]);
        if got < 16 {
            break;
        }
    }
    bytes.truncate(len);
    bytes
}

/// Bytes read ahead at a time.
const AHEAD: usize = 64;

/// A piece of guest code read ahead, refilled as decoding goes on.
pub(crate) struct Window<'c> {
    code: &'c dyn Code,
    start: u64,
    len: usize,
    buf: [u8; AHEAD],
    /// The first address known not to be executable.
    limit: Option<u64>,
}

impl<'c> Window<'c> {
    pub(crate) fn new(code: &'c dyn Code) -> Self {
        Self {
            code,
            start: 0,
            len: 0,
            buf: [0; AHEAD],
            limit: None,
        }
    }

    /// The bytes from `pc` on: at least 15 unless executable memory ends before.
    pub(crate) fn at(&mut self, pc: u64) -> &[u8] {
        let skip = pc.wrapping_sub(self.start);
        let have = (skip <= self.len as u64).then(|| self.len - skip as usize);
        let known_end = self
            .limit
            .is_some_and(|l| l == self.start.wrapping_add(self.len as u64));
        let skip = match have {
            Some(left) if left >= 15 || (known_end && left > 0) => skip as usize,
            _ => {
                self.fill(pc);
                0
            }
        };
        &self.buf[skip..self.len]
    }

    fn fill(&mut self, pc: u64) {
        (self.start, self.len, self.limit) = (pc, 0, None);
        let mut chunk = [0; 16];
        while self.len + 16 <= AHEAD {
            let at = pc.wrapping_add(self.len as u64);
            let got = self.code.fetch(GuestAddr(at), &mut chunk).min(16);
            self.buf[self.len..self.len + got].copy_from_slice(&chunk[..got]);
            self.len += got;
            if got < 16 {
                self.limit = Some(at.wrapping_add(got as u64));
                break;
            }
        }
    }
}
