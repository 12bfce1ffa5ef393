//! The vDSO that a guest sees: a small library of the kernel's functions that read clocks, and the
//! source of its readings.
//!
//! The page is part of a program's image, so a replay has the recorded page itself, and
//! a recording without one replays without one. Where the host's own vDSO cannot be used the
//! guest sees none, and its C library makes system calls.

mod functions;
mod vdso_elf;

use std::sync::OnceLock;

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSymbol};
use relive_host::reading::{self, Use, Vdso};

pub use vdso_elf::image;

/// The functions of the host's vDSO that make the guests' readings.
/// Process-wide: the kernel maps one vDSO into a process, and looking at it is slow.
static HOST: OnceLock<Option<Vdso>> = OnceLock::new();

/// Prepares this process for the readings of its guest; before its first task is made.
pub fn prepare(clocks: Use) {
    let vdso = match clocks {
        Use::Replay => None,
        _ => usable(),
    };
    reading::install(clocks, vdso);
}

/// Whether a program that is started now is shown a vDSO.
#[must_use]
pub fn is_shown() -> bool {
    usable().is_some()
}

fn usable() -> Option<Vdso> {
    *HOST.get_or_init(|| find().filter(|vdso| reading::keeps_vectors(*vdso)))
}

/// The offsets of the two functions in the kernel's vDSO, as this process has found them, for the program
/// that replaces its own. Looking for them takes a tenth of a millisecond.
#[must_use]
pub fn found() -> Option<[u64; 2]> {
    let (base, vdso) = (base()?, usable()?);
    Some([vdso.clock - base, vdso.cpu - base])
}

/// Uses the offsets that the old program's host has found: the kernel has one vDSO, and maps it at any
/// address.
pub fn adopt(functions: Option<[u64; 2]>) {
    let moved = |base: u64| {
        let [clock, cpu] = functions?.map(|offset| base.wrapping_add(offset));
        Some(Vdso { clock, cpu })
    };
    HOST.get_or_init(|| base().and_then(moved));
}

/// The address of the kernel's vDSO.
fn base() -> Option<u64> {
    // SAFETY: asks for a property of this process.
    let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    (base != 0).then_some(base)
}

/// Looks the functions up in the host's own vDSO (vdso(7)).
fn find() -> Option<Vdso> {
    let base = base()?;
    // SAFETY: the kernel maps its whole image there, readable, for as long as the process
    // lives. The section headers come last: their offset and number give its length.
    let image = unsafe {
        let word = |at: u64| ((base + at) as *const u16).read();
        let sections = ((base + 40) as *const u64).read();
        let length = sections + u64::from(word(58)) * u64::from(word(60));
        std::slice::from_raw_parts(base as *const u8, length as usize)
    };
    let elf = ElfFile64::<LittleEndian>::parse(image).ok()?;
    let function = |name: &str| {
        let mut symbols = elf.dynamic_symbols();
        let symbol = symbols.find(|s| s.name() == Ok(name) && s.is_definition())?;
        Some(base + (symbol.address() - elf.relative_address_base()))
    };
    Some(Vdso {
        clock: function("__vdso_clock_gettime")?,
        cpu: function("__vdso_getcpu")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As every kernel builds it that Relive is tested on; else guests are shown none.
    #[test]
    fn the_host_has_one_that_can_be_used() {
        assert!(find().is_none() || usable().is_some());
    }
}
