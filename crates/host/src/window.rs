//! Reserving the guest window: every guest address is inaccessible until the engine maps it.

use crate::layout;

// The page in front of the heap: see `layout.ld`. Its address does not fit into 32 bits, unlike
// those of the image, and so lies in memory.
std::arch::global_asm!(
    ".pushsection .relive_heap, \"a\", @nobits",
    "relive_heap: .skip 4096",
    ".popsection",
    ".pushsection .rodata, \"a\", @progbits",
    ".balign 8",
    ".globl relive_heap_at",
    "relive_heap_at: .quad relive_heap",
    ".popsection",
);

unsafe extern "C" {
    /// The address of that page.
    #[link_name = "relive_heap_at"]
    safe static HEAP_AT: u64;
    /// The image's first byte.
    #[link_name = "__ehdr_start"]
    safe static IMAGE: u8;
    /// The first byte behind it.
    #[link_name = "_end"]
    safe static IMAGE_BEHIND: u8;
}

/// Why the window could not be reserved.
#[derive(Debug, Clone, Copy)]
pub struct ReserveError {
    /// Start of the part that failed.
    pub start: u64,
    /// The kernel's error number.
    pub errno: i32,
}

/// Reserves `WINDOW_START..WINDOW_END` around the host's image, and the far window, as inaccessible
/// memory that costs nothing (`PROT_NONE`, `MAP_NORESERVE`). Once per process.
///
/// # Errors
/// The kernel's refusal, e.g. because an address-space limit (`ulimit -v`) is set or the window is
/// partly in use.
pub fn reserve() -> Result<(), ReserveError> {
    assert!(
        HEAP_AT == layout::WINDOW_END
            && &raw const IMAGE as u64 == layout::IMAGE_START
            && &raw const IMAGE_BEHIND as u64 <= layout::OBJECTS,
        "not linked as .cargo/config.toml says: does RUSTFLAGS replace what it asks for?"
    );
    for (start, end) in [
        (layout::WINDOW_START, layout::IMAGE_START),
        (layout::IMAGE_END, layout::WINDOW_END),
        (layout::FAR_START, layout::FAR_END),
    ] {
        // SAFETY: MAP_FIXED_NOREPLACE never touches an existing mapping.
        let got = unsafe { map_none(start, end - start, libc::MAP_FIXED_NOREPLACE) };
        if got < 0 {
            return Err(ReserveError {
                start,
                errno: -got as i32,
            });
        }
    }
    Ok(())
}

/// Gives a page range of the window back to the reserve: its contents are lost, and it is
/// inaccessible.
///
/// # Safety
/// Nothing else relies on the contents of the range, which lies in the window.
pub unsafe fn release(start: u64, len: u64) -> isize {
    // SAFETY: the caller owns the range.
    unsafe { map_none(start, len, libc::MAP_FIXED) }
}

unsafe fn map_none(start: u64, len: u64, how: i32) -> isize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | how;
    // SAFETY: the caller chooses between a fixed mapping over a range that it owns and one
    // that replaces nothing.
    unsafe {
        crate::sys::syscall(
            libc::SYS_mmap as u64,
            [
                start,
                len,
                libc::PROT_NONE as u64,
                flags as u64,
                u64::MAX,
                0,
            ],
        )
    }
}
