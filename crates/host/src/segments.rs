//! The segment registers DS and ES. Translated code loads them as its program does. In 64-bit code
//! they have no effect but can be read, and the kernel keeps them for each thread. Where one host
//! thread stands for several guest threads they are switched with these. FS and GS are never
//! loaded.

use std::arch::asm;

use serde::{Deserialize, Serialize};

/// Selectors of DS and ES.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments(u16, u16);

impl Segments {
    /// The selectors of the calling thread.
    #[inline]
    #[must_use]
    pub fn stored() -> Self {
        let (ds, es): (u16, u16);
        // SAFETY: only reads registers.
        unsafe {
            asm!("mov {0:x}, ds", "mov {1:x}, es", out(reg) ds, out(reg) es,
                options(nomem, nostack, preserves_flags));
        }
        Self(ds, es)
    }

    /// With 0 for null selectors: a processor keeps their lowest bits until the next interrupt.
    #[must_use]
    pub fn settled(self) -> Self {
        let settled = |selector| if selector <= 3 { 0 } else { selector };
        Self(settled(self.0), settled(self.1))
    }

    /// Whether the processor takes both: null selectors, and those of segments that can be read.
    #[must_use]
    pub fn can_be_loaded(self) -> bool {
        let readable = |selector: u16| {
            let zero: u8;
            // SAFETY: only looks the selector up.
            unsafe {
                asm!("verr {0:x}", "setz {1}", in(reg) selector, out(reg_byte) zero,
                    options(nomem, nostack));
            }
            selector <= 3 || zero != 0
        };
        readable(self.0) && readable(self.1)
    }

    /// Loads them in the calling thread.
    #[inline]
    pub fn load(self) {
        if self != Self::stored() {
            // SAFETY: a processor has accepted these selectors when the guest loaded them, or says that it
            // would; 64-bit code sees the same memory with any.
            unsafe {
                asm!("mov ds, {0:x}", "mov es, {1:x}", in(reg) self.0, in(reg) self.1,
                    options(nostack, preserves_flags));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_selectors_that_a_processor_takes_can_be_loaded() {
        assert!(Segments::stored().can_be_loaded() && Segments(0, 3).can_be_loaded());
        // The kernel's own data, and a place behind all tables.
        assert!(!Segments(0x18, 0).can_be_loaded() && !Segments(0, 0xfff3).can_be_loaded());
    }
}
