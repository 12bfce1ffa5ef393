//! A guest thread's vector and x87 registers while the host runs.
//!
//! XSAVE and XRSTOR cost some 130 ns together where plain stores and loads of all AVX-512 registers
//! cost 20. So `enter.rs` moves them one by one, in one of three *forms*, and leaves the x87
//! registers in the processor. To read or change them, ask for the XSAVE area, which is filled in
//! then.
//!
//! Host code must never use x87 or MMX instructions; compilers for x86-64 use neither.

use std::arch::asm;
use std::cell::Cell;
use std::sync::OnceLock;

use crate::context::{Context, XsaveArea};
use crate::cpu;

/// Form: everything in the XSAVE area. Also the value of `held` for registers that are in the area
/// already.
const AREA: u32 = 0;
/// Form: 16 registers of 32 bytes.
pub(crate) const AVX: u32 = 1;
/// Form: 32 registers of 64 bytes and eight mask registers.
const AVX512: u32 = 2;

/// State components of AVX and of AVX-512 (Intel SDM vol. 1, 13.1).
const WITH_AVX: u64 = 0x7;
const WITH_AVX512: u64 = 0xe7;

/// The form for this processor.
pub(crate) fn form() -> u32 {
    /// The form, once known. Process-wide: there is one processor, and asking it is slow.
    static FORM: OnceLock<u32> = OnceLock::new();
    *FORM.get_or_init(|| match cpu::xcr0() {
        WITH_AVX512 if cpu::xsave_layout().wide_masks => AVX512,
        WITH_AVX => AVX,
        _ => AREA,
    })
}

thread_local! {
    /// The context that this host thread has adopted; the processor holds its x87 registers.
    /// Thread-wide: it names the state of the processor.
    static ADOPTED: Cell<*mut Context> = const { Cell::new(std::ptr::null_mut()) };
}

/// The component of the x87 registers.
const X87: u32 = 1;

/// Moves the x87 registers of the context adopted before out of the processor, and those of the next one into it.
///
/// # Safety
/// `next` is valid, and so is the context adopted before, if it was not dropped.
pub(crate) unsafe fn change_to(next: *mut Context) {
    let last = ADOPTED.replace(next);
    if last == next {
        return;
    }
    // SAFETY: see above; only this thread touches them.
    unsafe {
        if !last.is_null() {
            (*last).put_x87_away();
        }
        (*next).take_x87_back();
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if ADOPTED.get() == &raw mut *self {
            ADOPTED.set(std::ptr::null_mut());
        }
    }
}

impl Context {
    /// Vector and x87 registers, for reading.
    ///
    /// # Panics
    /// In another host thread than the one that has adopted the context.
    #[must_use]
    pub fn vectors(&self) -> XsaveArea {
        let mut area = self.xsave.clone();
        if self.held == AREA {
            return area;
        }
        if !self.x87_away {
            assert_eq!(
                cpu::gs_base(),
                &raw const *self as u64,
                "the x87 registers are in another thread's processor"
            );
            save_x87(&mut area);
        }
        area.0[24..28].copy_from_slice(&self.mxcsr.to_le_bytes());
        let layout = cpu::xsave_layout();
        let mut put = |component: usize, at: usize, bytes: &[u8]| {
            if layout.components >> component & 1 == 1 {
                let at = at + layout.ranges[component].0;
                area.0[at..at + bytes.len()].copy_from_slice(bytes);
            }
        };
        // Intel SDM vol. 1, 13.4 and 13.5: SSE has no range of its own, it follows the x87 part.
        let (low, high) = self.vectors.0.split_at(16);
        for (n, register) in low.iter().enumerate() {
            put(1, 160 + 16 * n, &register[..16]);
            put(2, 16 * n, &register[16..32]);
            put(6, 32 * n, &register[32..]);
        }
        for (n, (mask, register)) in self.masks.iter().zip(high.chunks(2)).enumerate() {
            put(5, 8 * n, &mask.to_le_bytes());
            put(7, 128 * n, register.as_flattened());
        }
        area.set_xstate_bv(layout.components);
        area.settle();
        area
    }

    /// Vector and x87 registers, for changes.
    ///
    /// # Panics
    /// As [`Context::vectors`].
    pub fn vectors_mut(&mut self) -> &mut XsaveArea {
        if self.held != AREA {
            self.xsave = self.vectors();
            (self.held, self.x87_away) = (AREA, false);
        }
        &mut self.xsave
    }

    /// The x87 registers go into the XSAVE area: another context is adopted. The vector registers stay where they are, which is most of
    /// them.
    fn put_x87_away(&mut self) {
        if self.held != AREA {
            save_x87(&mut self.xsave);
            self.x87_away = true;
        }
    }

    /// The context is adopted again.
    fn take_x87_back(&mut self) {
        if std::mem::take(&mut self.x87_away) {
            // SAFETY: the area has a state of the x87 registers that the processor has stored, and its header is one of the
            // standard format.
            unsafe {
                asm!("xrstor64 [{}]", in(reg) &raw const self.xsave, in("eax") X87, in("edx") 0, options(nostack, readonly));
            }
        }
    }

    /// Clears the address of the last x87 instruction: it lies in the code cache, which the guest
    /// must not see. Called after every exit that makes the guest's state visible.
    pub fn forget_x87_pointers(&mut self) {
        if self.held == AREA {
            self.xsave.forget_x87_pointers();
        }
    }
}

/// Stores the x87 registers of the processor; nothing else is in the area then.
fn save_x87(area: &mut XsaveArea) {
    area.reset();
    // SAFETY: the area is as large as the component needs, and aligned.
    unsafe {
        asm!("xsave64 [{}]", in(reg) &raw mut *area, in("eax") X87, in("edx") 0, options(nostack));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::off;
    use crate::enter;

    /// Code that doubles the 32-bit lanes of `ymm3` and `xmm12`, adds 1 to x87's top of stack
    /// and leaves.
    fn code() -> u64 {
        let exit = off::EXIT_FN.to_le_bytes();
        let mut bytes = vec![
            0xc5, 0xe5, 0xfe, 0xdb, // vpaddd ymm3, ymm3, ymm3
            0x66, 0x45, 0x0f, 0xfe, 0xe4, // paddd xmm12, xmm12
            0xd9, 0xe8, 0xde, 0xc1, // fld1; faddp
            0x65, 0xff, 0x24, 0x25, // jmp gs:[...]
        ];
        bytes.extend_from_slice(&exit);
        // SAFETY: a fresh mapping, as large as the code is.
        unsafe {
            let page = libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(page, libc::MAP_FAILED);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), page.cast(), bytes.len());
            page as u64
        }
    }

    /// A context with vector registers that hold `byte`, above 128 bits only if `upper`, and an x87
    /// stack that holds 1.0.
    fn context(form: u32, byte: u8, upper: bool) -> Box<Context> {
        let mut ctx = Context::new();
        (ctx.form, ctx.entry) = (form, code());
        ctx.guest_fs = cpu::fs_base();
        let layout = cpu::xsave_layout();
        let area = ctx.vectors_mut();
        area.0[160..416].fill(byte);
        let mut components = 3;
        if upper {
            let (from, to) = layout.ranges[2];
            area.0[from..to].fill(byte);
            components |= 4;
        }
        // ST(0) = 1.0 in a stack of one register (Intel SDM vol. 1, 8.1.2 and 10.5.1.1).
        area.0[2..4].copy_from_slice(&(7_u16 << 11).to_le_bytes());
        area.0[4] = 0x80;
        area.0[32..42].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f]);
        area.set_xstate_bv(components);
        ctx
    }

    fn run(ctx: &mut Context) {
        // SAFETY: the context outlives the call, and its entry is code that keeps to the
        // rules of a fragment.
        unsafe {
            enter::adopt(ctx);
            enter::enter(ctx);
        }
    }

    /// Forms that this processor has.
    fn forms() -> impl Iterator<Item = u32> {
        (AREA..=form()).filter(|_| cpu::xcr0() & 4 != 0)
    }

    fn register(area: &XsaveArea, n: usize) -> Vec<u8> {
        let high = cpu::xsave_layout().ranges[2].0 + 16 * n;
        let mut bytes = area.0[160 + 16 * n..][..16].to_vec();
        if area.xstate_bv() & 4 == 0 {
            bytes.extend_from_slice(&[0; 16]);
        } else {
            bytes.extend_from_slice(&area.0[high..high + 16]);
        }
        bytes
    }

    #[test]
    fn all_forms_keep_all_registers_over_a_stop() {
        for form in forms() {
            for upper in [false, true] {
                let mut ctx = context(form, 3, upper);
                run(&mut ctx);
                run(&mut ctx);
                let area = ctx.vectors();
                let high = |v: u8| if upper { [v; 16] } else { [0; 16] };
                for n in 0..16 {
                    let low = if matches!(n, 3 | 12) { 12 } else { 3 };
                    let high = high(if n == 3 { 12 } else { 3 });
                    assert_eq!(
                        register(&area, n),
                        [[low; 16], high].concat(),
                        "register {n}, form {form}, upper {upper}"
                    );
                }
                // 1.0 + 1.0 + 1.0
                assert_eq!(area.0[32..42], [0, 0, 0, 0, 0, 0, 0, 0xc0, 0x00, 0x40]);
            }
        }
    }

    #[test]
    fn contexts_of_one_thread_do_not_see_each_others_registers() {
        for form in forms() {
            let (mut a, mut b) = (context(form, 1, true), context(form, 5, false));
            run(&mut a);
            run(&mut b);
            run(&mut a);
            let (first, second) = (a.vectors_mut().clone(), b.vectors_mut().clone());
            assert_eq!(register(&first, 3), [4; 32], "form {form}");
            assert_eq!(register(&second, 3), [[10; 16], [0; 16]].concat());
            assert_eq!(first.0[32..42], [0, 0, 0, 0, 0, 0, 0, 0xc0, 0x00, 0x40]);
            assert_eq!(second.0[32..42], [0, 0, 0, 0, 0, 0, 0, 0x80, 0x00, 0x40]);
        }
    }
}
