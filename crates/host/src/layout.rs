//! The layout of the shared address space of guest and host.
//!
//! ```text
//! 0x0000_0001_0000  guest low window: images, and mappings that ask for a low address
//! 0x0000_4000_0000  code cache (320 MiB)
//! 0x0000_5400_0000  the host's image (64 MiB)
//! 0x0000_57df_e000  filter of accesses that are tracked (1 MiB and 8 KiB)
//! 0x0000_57f0_0000  objects of ordered instructions (1 MiB)
//! 0x0000_5800_0000  never mapped
//! 0x0000_6000_0000  branch table: one 8-byte slot per byte of the low window (8 GiB)
//! 0x0000_7fff_7000  guest annex: AddressSanitizer's shadow memory, over part of the table
//! 0x0004_8000_0000  guest middle window: only for mappings that ask for it by address
//! 0x1000_0000_0000  guest high window: heap, stacks, anonymous and data mappings
//! 0x5000_0000_0000  the host: its heap, its stacks, rings
//! 0x6000_0000_0000  guest far window, in the middle of the host's part: AddressSanitizer's heap
//! ```
//!
//! The branch table is reached as `jmp [reg*8 + TABLE]`. An address outside the low window
//! has its slot in memory that is never mapped (middle addresses below 2^31 hit the
//! unmapped gap behind the table; high-window addresses times eight are not canonical), so
//! that such a jump faults at the jump itself and is resolved by the fault path.

/// Start of everything the guest may map.
pub const WINDOW_START: u64 = 0x1_0000;
/// End of the guest low window.
pub const LOW_END: u64 = 0x4000_0000;
/// Start of the code cache.
pub const CACHE_START: u64 = 0x4000_0000;
/// End of the code cache.
pub const CACHE_END: u64 = 0x5400_0000;
/// Start of the host's executable (`.cargo/config.toml`): a fixed address needs no relocation at
/// each start, and one below 2 GiB lets the C library's calls of missing functions be linked.
pub const IMAGE_START: u64 = CACHE_END;
/// End of the room for it. From here to the table nothing is ever mapped: jumps to the topmost
/// addresses of the address space (`-1`, the vsyscall page) look for their slot there and must
/// fault.
pub const IMAGE_END: u64 = TABLE - (128 << 20);
/// Address of the objects of ordered instructions ([`crate::order`]): the last part of that room,
/// which emitted code reaches by a plain displacement.
pub const OBJECTS: u64 = IMAGE_END - OBJECTS_BYTES;
/// Their size.
pub const OBJECTS_BYTES: u64 = 1 << 20;
/// Address of the filter of tracked accesses ([`crate::track`]): the part before it, for the same
/// reason.
pub const TRACK_FILTER: u64 = OBJECTS - TRACK_FILTER_BYTES;
/// Its size.
pub const TRACK_FILTER_BYTES: u64 = (1 << 20) + (8 << 10);
/// Base of the branch table: the slot of guest address `a` is at `TABLE + 8 * a`.
pub const TABLE: u64 = 0x6000_0000;
/// End of the branch table.
pub const TABLE_END: u64 = TABLE + 8 * LOW_END;
/// Start of the guest annex: 256 MiB that the guest may map in place of the slots for
/// [`ANNEX_CODE`]. AddressSanitizer demands it (its shadow of addresses below 2 GiB).
pub const ANNEX_START: u64 = 0x7fff_7000;
/// End of the guest annex.
pub const ANNEX_END: u64 = 0x8fff_7000;
/// Start of the guest addresses with slots that may lie in the annex (whole MiB around them): code
/// lies here only while nothing is mapped there, and the reverse.
pub const ANNEX_CODE_START: u64 = 0x3f0_0000;
/// End of these addresses.
pub const ANNEX_CODE_END: u64 = 0x600_0000;
/// Start of the guest middle window; the gap below it stays unmapped so that jumps to
/// addresses between `LOW_END` and 2^31 fault at their table slot.
pub const MIDDLE_START: u64 = 0x4_8000_0000;
/// Start of the guest high window.
pub const HIGH_START: u64 = 0x1000_0000_0000;
/// Start of new mappings in the high window: AddressSanitizer's shadow of the addresses above ends
/// here.
pub const HIGH_ALLOC: u64 = HIGH_START + (2 << 30);
/// Start of the guest far window (4 TiB and a bit): AddressSanitizer's allocator lies only here,
/// with its own records behind it.
pub const FAR_START: u64 = 0x6000_0000_0000;
/// End of the guest far window.
pub const FAR_END: u64 = 0x6400_4000_0000;
/// End of all guest memory but the far window; the host lies above.
pub const WINDOW_END: u64 = 0x5000_0000_0000;

/// Distance of a shadow below its guest stack; it holds the host's return addresses of paired calls
/// (`relive_dbt`). A displacement of 32 bits reaches it, and it is not a multiple of the page size:
/// processors first search the store that a load depends on by the lowest twelve bits of the
/// address, and a return loads the guest's return address right before the host's.
pub const SHADOW_BELOW: u64 = 0x7fff_0000 - 0x840;
/// Start of the guest's heap, far from all other maps.
pub const HEAP_START: u64 = HIGH_START + (1 << 42);
/// End of the main thread's stack.
pub const STACK_TOP: u64 = WINDOW_END - (1 << 20);
/// Guest memory with shadows that cannot be guest memory, as long as all of the guest's memory lies
/// here or in the low window.
const SHADOWED: [(u64, u64); 3] = [
    (HIGH_ALLOC, HIGH_ALLOC + SHADOW_BELOW),
    (HEAP_START, HEAP_START + SHADOW_BELOW),
    (WINDOW_END - SHADOW_BELOW, WINDOW_END),
];

/// Target of a paired return without a paired call: code at a fixed place in the cache.
pub const SHADOW_MISS: u64 = CACHE_START + 128;

/// Whether the stack pointer lies in a shadow.
#[must_use]
pub fn in_shadow(rsp: u64) -> bool {
    let stack = rsp.wrapping_add(SHADOW_BELOW);
    may_have_shadow(stack, stack.saturating_add(1))
}

/// Whether stacks in this range may have a shadow: see [`SHADOW_BELOW`].
#[must_use]
pub fn may_have_shadow(start: u64, end: u64) -> bool {
    SHADOWED.iter().any(|r| r.0 <= start && end <= r.1)
}

/// The page of the functions that read clocks, as the kernel's vDSO: in the low window, behind the
/// addresses that images and libraries reach first.
pub const VDSO_START: u64 = LOW_END - 0x1_0000;
/// End of this page.
pub const VDSO_END: u64 = VDSO_START + 0x1000;

/// End of the addresses that may be the base of FS (arch_prctl(2)): loading one that is not
/// canonical faults.
pub const FS_END: u64 = 1 << 47;

/// Whether an instruction at this guest address may be one of those that read clocks.
#[must_use]
pub const fn in_vdso(addr: u64) -> bool {
    addr >= VDSO_START && addr < VDSO_END
}

/// Whether translated code may lie at this (host) address.
#[must_use]
pub const fn in_cache(addr: u64) -> bool {
    addr >= CACHE_START && addr < CACHE_END
}

/// Whether the guest may map this address.
#[must_use]
pub const fn guest_may_map(addr: u64) -> bool {
    addr < FAR_END && guest_may_map_range(addr, addr + 1)
}

/// Whether the guest may map this range, which is not empty, as a whole.
#[must_use]
pub const fn guest_may_map_range(start: u64, end: u64) -> bool {
    start < end
        && ((start >= WINDOW_START && end <= LOW_END)
            || (start >= ANNEX_START && end <= ANNEX_END)
            || (start >= MIDDLE_START && end <= WINDOW_END)
            || (start >= FAR_START && end <= FAR_END))
}

/// Whether code in a range has slots that may lie in the annex. A return to its first address has
/// the slot before it.
#[must_use]
pub const fn meets_annex_code(start: u64, end: u64) -> bool {
    start <= ANNEX_CODE_END && end > ANNEX_CODE_START
}

/// Whether the address lies in the low window, where code has a table slot.
#[must_use]
pub const fn is_low(addr: u64) -> bool {
    addr < LOW_END
}

const _: () =
    assert!(TABLE + 8 * ANNEX_CODE_START <= ANNEX_START && TABLE + 8 * ANNEX_CODE_END >= ANNEX_END);
const _: () =
    assert!(TABLE_END < MIDDLE_START && TABLE < 1 << 31 && MIDDLE_START > TABLE + (8 << 31));
const _: () = assert!(HIGH_ALLOC - SHADOW_BELOW >= HIGH_START && SHADOW_BELOW < 1 << 31);
