//! Tracked accesses: translated code tells the host of the memory that it is about to access, for
//! instance to find data races. A process that tracks runs all guest threads on one host thread.
//!
//! In front of a tracked access the emitted code looks into a *filter*: a table of the accesses that
//! the host has seen last, one for reads and one for writes. An entry is a *key*: the address, the
//! class of size, and the number of the *era*, which the host changes whenever it wants to be told
//! of everything again. Only an access without its key in the filter calls the host's *tracker*.
//!
//! The routine saves all registers that compiled code may change, vector registers in the context's
//! place for them, and gives the tracker the host's FS. The access has not been made yet and may fault: a tracker must never touch its memory.

pub(crate) mod access;

use std::arch::naked_asm;
use std::cell::UnsafeCell;

pub use access::{TRACK_SIZES, Tracked, size_class};

use crate::context::{Context, off};
use crate::layout::{TRACK_FILTER, TRACK_FILTER_BYTES};
use crate::{sys, vectors};

/// Entries of the filter, for reads and for writes each.
pub const ENTRIES: u64 = TRACK_FILTER_BYTES / 2 / 8;
/// Addresses that differ from here on have different entries.
pub const ENTRY_SHIFT: u32 = 2;
/// Where the class of size begins in a key.
const SIZE_SHIFT: u32 = 47;
/// Where the era begins.
const ERA_SHIFT: u32 = 50;
/// Eras before the filter is emptied.
const ERAS: u64 = 1 << (64 - ERA_SHIFT);

/// Table of the filter: for reads, for writes.
#[must_use]
pub const fn table(writes: bool) -> u64 {
    match writes {
        false => TRACK_FILTER,
        true => TRACK_FILTER + TRACK_FILTER_BYTES / 2,
    }
}

/// Is told of accesses: the context, the address, [`Tracked::word`].
pub type Tracker = extern "C" fn(&mut Context, u64, u64);

/// The tracker of the process.
struct Installed(UnsafeCell<Option<Tracker>>);

// SAFETY: it is only accessed by the one thread of a process that tracks.
unsafe impl Sync for Installed {}

/// The installed tracker. Process-wide: a routine that translated code calls gets no argument for it.
static TRACKER: Installed = Installed(UnsafeCell::new(None));

/// Makes the filter of this process, and has `tracker` told of all accesses that are not in it.
///
/// # Errors
/// The kernel's error number.
///
/// # Safety
/// The process has one host thread, for as long as it runs guest code.
pub unsafe fn install(tracker: Tracker) -> Result<(), i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let args = [
        TRACK_FILTER,
        TRACK_FILTER_BYTES,
        prot as u64,
        flags as u64,
        u64::MAX,
        0,
    ];
    // SAFETY: the range is reserved for this mapping alone.
    let got = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
    if got < 0 {
        return Err(-got as i32);
    }
    // SAFETY: one thread, as the caller vouches, and it is not in the routine.
    unsafe { *TRACKER.0.get() = Some(tracker) };
    Ok(())
}

/// The number of an era: keys of another one are not in the filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Era(u64);

impl Era {
    /// The next one, of which nothing is in the filter.
    #[must_use]
    pub fn next(self) -> Self {
        let next = self.0 + 1;
        if next < ERAS {
            return Self(next);
        }
        // SAFETY: an era is only counted where the filter is installed; all zeros is empty.
        unsafe {
            std::ptr::write_bytes(TRACK_FILTER as *mut u8, 0, TRACK_FILTER_BYTES as usize);
        }
        Self(1)
    }

    fn key(self, class: usize) -> u64 {
        self.0 << ERA_SHIFT | (class as u64) << SIZE_SHIFT
    }

    /// Puts an access into the filter: it is not told again in this era, until another one takes its
    /// entry.
    pub fn seen(self, addr: u64, size: u64, writes: bool) {
        let entry = (addr >> ENTRY_SHIFT) % ENTRIES;
        let at = (table(writes) + 8 * entry) as *mut u64;
        // SAFETY: an entry of the filter, which is installed where there are eras.
        unsafe { *at = addr ^ self.key(size_class(size)) };
    }
}

impl Context {
    /// From now on the accesses of this thread are of this era.
    pub fn begin_era(&mut self, era: Era) {
        for (class, key) in self.track_keys.iter_mut().enumerate() {
            *key = era.key(class);
        }
    }

    /// A mask register of the guest, for a tracker.
    #[must_use]
    pub fn tracked_mask(&self, number: u8) -> u64 {
        self.masks[usize::from(number)]
    }

    /// The guest's rcx, for a tracker: the context's own registers are not the guest's then.
    #[must_use]
    pub fn tracked_rcx(&self) -> u64 {
        self.spill_rcx
    }
}

/// Address of the routine.
pub(crate) fn routine() -> u64 {
    told as *const () as u64
}

/// Hands an access on.
extern "C" fn tell(ctx: &mut Context, addr: u64, word: u64) {
    // SAFETY: the one thread of the process.
    if let Some(tracker) = unsafe { *TRACKER.0.get() } {
        tracker(ctx, addr, word);
    }
}

/// With the address in rcx and the description in rdx, which the caller has saved, as well as the
/// arithmetic flags.
#[unsafe(naked)]
unsafe extern "C" fn told() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rax",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "pushfq",
        "cld",
        "and rsp, -16",
        "mov rdi, gs:[{this}]",
        "cmp dword ptr [rdi + {form}], {avx}",
        "ja 6f",
        "je 5f",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "movaps [rdi + {vectors} + 64 * \\n], xmm\\n",
        ".endr",
        "jmp 9f",
        "6:",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "vmovdqa64 [rdi + {vectors} + 64 * \\n], zmm\\n",
        ".endr",
        ".irp n, 0,1,2,3,4,5,6,7",
        "kmovq [rdi + {masks} + 8 * \\n], k\\n",
        ".endr",
        "vzeroupper",
        "jmp 9f",
        "5:",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "vmovdqa [rdi + {vectors} + 64 * \\n], ymm\\n",
        ".endr",
        "vzeroupper",
        "9:",
        "mov rsi, rcx",
        "mov rax, [rdi + {host_fs}]",
        "wrfsbase rax",
        "call {tell}",
        "mov rdi, gs:[{this}]",
        "mov rax, [rdi + {guest_fs}]",
        "wrfsbase rax",
        "cmp dword ptr [rdi + {form}], {avx}",
        "ja 6f",
        "je 5f",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "movaps xmm\\n, [rdi + {vectors} + 64 * \\n]",
        ".endr",
        "jmp 9f",
        "6:",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "vmovdqa64 zmm\\n, [rdi + {vectors} + 64 * \\n]",
        ".endr",
        ".irp n, 0,1,2,3,4,5,6,7",
        "kmovq k\\n, [rdi + {masks} + 8 * \\n]",
        ".endr",
        "jmp 9f",
        "5:",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "vmovdqa ymm\\n, [rdi + {vectors} + 64 * \\n]",
        ".endr",
        "9:",
        "lea rsp, [rbp - 64]",
        "test byte ptr [rsp + 1], 4",
        "jz 2f",
        "std",
        "2:",
        "pop rax",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rax",
        "pop rbp",
        "ret",
        this = const off::THIS,
        form = const off::FORM,
        avx = const vectors::AVX,
        vectors = const off::VECTORS,
        masks = const off::MASKS,
        host_fs = const off::HOST_FS,
        guest_fs = const off::GUEST_FS,
        tell = sym tell,
    )
}
