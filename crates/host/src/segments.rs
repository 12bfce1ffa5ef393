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

    /// Loads them in the calling thread.
    #[inline]
    pub fn load(self) {
        if self != Self::stored() {
            // SAFETY: a processor has accepted these selectors when the guest loaded them; 64-bit
            // code sees the same memory with any.
            unsafe {
                asm!("mov ds, {0:x}", "mov es, {1:x}", in(reg) self.0, in(reg) self.1,
                    options(nostack, preserves_flags));
            }
        }
    }
}
