//! Places of thread-local variables (Drepper, *ELF Handling For Thread-Local Storage*, variant II).
//!
//! The program's own block ends where the thread's pointer points. The dynamic linker writes the
//! places of libraries' blocks into their own slots: the distance from that pointer, or the number
//! of the library in the thread's vector of blocks.

use object::elf::{
    DF_1_PIE, DT_FLAGS_1, DT_SONAME, ET_EXEC, PT_INTERP, PT_TLS, R_X86_64_DTPMOD64,
    R_X86_64_TPOFF64,
};
use object::read::elf::ProgramHeader;
use object::{Object, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget};

use crate::target::Target;
use crate::unknown::Unknown;

/// No library's vector of blocks has more entries.
const MOST_MODULES: u64 = 1 << 20;
/// Slots of one file that are looked at.
const MOST_SLOTS: usize = 64;

/// The thread-local block of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    size: u64,
    align: u64,
    address: u64,
    /// The file is the program itself.
    program: bool,
    slots: Vec<GotEntry>,
}

/// A word that the dynamic linker sets.
#[derive(Clone, Copy, Debug)]
enum GotEntry {
    /// At this address: the number of the module.
    Module(u64),
    /// At the first address: the distance from the thread's pointer of the variable with the
    /// second number as its offset in the block.
    Distance(u64, u64),
}

impl Block {
    /// `None` if it has no such block.
    pub(crate) fn of(file: &object::File<'_>) -> Option<Self> {
        let object::File::Elf64(elf) = file else {
            return None;
        };
        let e = elf.endian();
        let headers = elf.elf_program_headers();
        let tls = headers.iter().find(|h| h.p_type.get(e) == PT_TLS)?;
        let interpreted = headers.iter().any(|h| h.p_type.get(e) == PT_INTERP);
        let fixed = elf.elf_header().e_type.get(e) == ET_EXEC;
        let entries = headers
            .iter()
            .flat_map(|h| h.dynamic(e, elf.data()).ok().flatten().unwrap_or(&[]));
        let (mut pie, mut named) = (false, false);
        for entry in entries {
            match (entry.d_tag.get(e) as u32, entry.d_val.get(e)) {
                (DT_FLAGS_1, flags) => pie |= flags & u64::from(DF_1_PIE) != 0,
                (DT_SONAME, _) => named = true,
                _ => {}
            }
        }
        let mut block = Self {
            size: tls.p_memsz(e),
            align: tls.p_align(e).max(1),
            address: tls.p_vaddr(e),
            // The C library can be run too, and names an interpreter.
            program: interpreted && !named || fixed || pie,
            slots: Vec::new(),
        };
        let symbols = file.dynamic_symbol_table();
        for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                continue;
            };
            let own = match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    let symbol = symbols.as_ref().and_then(|t| t.symbol_by_index(index).ok());
                    symbol.filter(|s| !s.is_undefined()).map(|s| s.address())
                }
                _ => Some(0),
            };
            let Some(value) = own else { continue };
            match r_type {
                R_X86_64_DTPMOD64 => block.slots.push(GotEntry::Module(at)),
                R_X86_64_TPOFF64 => {
                    let offset = value.wrapping_add(relocation.addend().cast_unsigned());
                    block.slots.push(GotEntry::Distance(at, offset));
                }
                _ => {}
            }
            if block.slots.len() == MOST_SLOTS {
                break;
            }
        }
        Some(block)
    }

    /// How far before the thread's pointer the program's own block begins.
    fn before_pointer(&self) -> u64 {
        // The block's first byte has the alignment that its address in the file has.
        let mask = self.align - 1;
        let first = self.address.wrapping_neg() & mask;
        let rounded = self.size.wrapping_sub(first).wrapping_add(mask) & !mask;
        rounded.wrapping_add(first)
    }
}

/// The address of the variable at an offset in a module's block, for the thread whose pointer
/// this is. `bias` is the module's addresses less those in its file.
///
/// # Errors
/// The reason why it is not known.
pub(crate) fn address(
    target: &mut dyn Target,
    block: Option<&Block>,
    bias: u64,
    pointer: Option<u64>,
    offset: u64,
) -> Result<u64, Unknown> {
    let pointer = pointer.ok_or("every thread has its own: say which with --thread")?;
    let unknown = || Unknown::from("where the library has its thread-local variables is not known");
    let block = block.ok_or_else(unknown)?;
    if !block.align.is_power_of_two() {
        return Err(unknown());
    }
    if block.program {
        return Ok(pointer
            .wrapping_sub(block.before_pointer())
            .wrapping_add(offset));
    }
    let mut unused = false;
    for slot in &block.slots {
        match *slot {
            GotEntry::Distance(at, of) => {
                let distance = target.word(at.wrapping_add(bias));
                // Before the dynamic linker has run, it is the value in the file.
                if let Some(distance) = distance.filter(|d| d.cast_signed() < 0) {
                    let start = pointer.wrapping_add(distance).wrapping_sub(of);
                    return Ok(start.wrapping_add(offset));
                }
            }
            GotEntry::Module(at) => {
                let number = target.word(at.wrapping_add(bias));
                let Some(number) = number.filter(|n| (1..MOST_MODULES).contains(n)) else {
                    continue;
                };
                // glibc's vector has two words for each module, the first of them the block's
                // address, all ones as long as the thread has not used it.
                let vector = target.word(pointer.wrapping_add(8)).unwrap_or(0);
                match target.word(vector.wrapping_add(16 * number)) {
                    Some(start) if start != 0 && start != u64::MAX => {
                        return Ok(start.wrapping_add(offset));
                    }
                    _ => unused = true,
                }
            }
        }
    }
    Err(if unused {
        "the thread has not used the thread-local variables of that library yet".into()
    } else {
        unknown()
    })
}
