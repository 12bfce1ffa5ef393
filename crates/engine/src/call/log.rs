//! The effects of the call at hand, as they are collected for its event.

use relive_host::{GuestAddr, copy};
use relive_trace::{BLOB_MAX, InputRef};

use crate::failure::{Failure, Result};

/// Fewer bytes than this of memory can change with one event, which has to say where they lie too.
const MOST: u64 = BLOB_MAX - (1 << 20);

/// The effects of a call besides its result: collected while it is made, then logged. Reused from
/// call to call, so that logging does not allocate.
#[derive(Default)]
pub struct Log {
    /// Guest ranges that the kernel wrote: address, length.
    pub spans: Vec<(u64, u64)>,
    /// Data of the hook.
    pub extra: Vec<u8>,
    /// Another thread ran meanwhile.
    pub switched: bool,
    /// Its number among the outputs of the tree.
    pub order: Option<u64>,
    /// The standard stream that it wrote to.
    pub stream: u8,
    /// No other thread may run while it is made, and it does not sleep.
    pub keeps_baton: bool,
    /// Room for references into the store of input.
    pub refs: Vec<InputRef>,
    /// Those of the ranges that hold zeros, and are not to be looked at.
    zeros: Vec<(u64, u64)>,
    /// Parts of the ranges that the guest cannot read hold the file's bytes, or zeros behind its end.
    padded: bool,
    bytes: Vec<u8>,
}

/// The content of guest memory between two addresses, whether the guest may read it or not.
type Behind<'a> = &'a dyn Fn(u64, u64) -> Result<Vec<u8>>;

impl Log {
    /// Forgets the last call.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.zeros.clear();
        self.extra.clear();
        (self.switched, self.order, self.stream) = (false, None, 0);
        (self.padded, self.keeps_baton) = (false, false);
    }

    /// Notes that the kernel wrote `len` bytes at `addr`.
    pub fn wrote(&mut self, addr: u64, len: u64) {
        if addr != 0 && len != 0 {
            self.spans.push((addr, len));
        }
    }

    /// Notes that the call found no byte there, behind the end of a file that is mapped shared: as a write of none.
    pub fn missed(&mut self, addr: u64) {
        self.spans.push((addr, 0));
    }

    /// Notes that `len` bytes at `addr` have changed with the file behind them. Bytes behind the end of
    /// the file are logged as zeros, which they are if the file ever grows again.
    pub fn changed(&mut self, addr: u64, len: u64) {
        self.wrote(addr, len);
        self.padded = true;
    }

    /// Notes that `len` bytes at `addr` have become zeros with the file behind them. Nobody looks at them: a file in memory would get its
    /// pages back (tmpfs(5)).
    pub fn zeroed(&mut self, addr: u64, len: u64) {
        self.changed(addr, len);
        self.zeros.push((addr, len));
    }

    /// The number of bytes that the call brought.
    #[must_use]
    pub fn brought(&self) -> u64 {
        self.spans
            .iter()
            .fold(0, |sum, (_, len)| sum.saturating_add(*len))
    }

    /// Reads the written ranges from guest memory and passes them on. A range that cannot be read to
    /// its end is cut there; if it changed with its file, `behind` reads the rest.
    ///
    /// # Errors
    /// Those of `behind` and `f`.
    pub fn with_slices(
        &mut self,
        behind: Behind<'_>,
        f: impl FnOnce(&Self, &[(u64, &[u8])]) -> Result<()>,
    ) -> Result<()> {
        if self.brought() >= MOST {
            return Err(Failure::unsupported(format!(
                "a call changes {} GiB of memory at once, and an event holds 4 at most: a large file that is mapped shared, perhaps, and is cut",
                self.brought() >> 30
            )));
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        match self.spans[..] {
            [] => f(self, &[])?,
            [span] => {
                let end = self.read(behind, span, &mut bytes, 0)?;
                f(self, &[(span.0, &bytes[..end])])?;
            }
            _ => self.with_many(behind, &mut bytes, f)?,
        }
        if bytes.len() <= 1 << 20 {
            self.bytes = bytes;
        }
        Ok(())
    }

    fn with_many(
        &self,
        behind: Behind<'_>,
        bytes: &mut Vec<u8>,
        f: impl FnOnce(&Self, &[(u64, &[u8])]) -> Result<()>,
    ) -> Result<()> {
        let mut end = 0;
        let ends = self.spans.iter().map(|span| {
            end = self.read(behind, *span, bytes, end)?;
            Ok(end)
        });
        let ends = ends.collect::<Result<Vec<usize>>>()?;
        let mut start = 0;
        let slices = self.spans.iter().zip(ends).map(|(span, end)| {
            let from = std::mem::replace(&mut start, end);
            (span.0, &bytes[from..end])
        });
        f(self, &slices.collect::<Vec<_>>())
    }

    /// Reads a range into `bytes` from `start` on; returns its end there. The vector may be longer:
    /// bytes are overwritten, and not cleared before.
    fn read(
        &self,
        behind: Behind<'_>,
        (addr, len): (u64, u64),
        bytes: &mut Vec<u8>,
        start: usize,
    ) -> Result<usize> {
        let end = start + len as usize;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        if self.zeros.contains(&(addr, len)) {
            bytes[start..end].fill(0);
            return Ok(end);
        }
        let Err(copy::BadAddress(bad)) = copy::read(GuestAddr(addr), &mut bytes[start..end]) else {
            return Ok(end);
        };
        let readable = start + (bad.0 - addr) as usize;
        if self.padded {
            let rest = behind(bad.0, addr + len)?;
            bytes[readable..end].copy_from_slice(&rest);
            return Ok(end);
        }
        Ok(readable)
    }
}
