//! Executables as exec reads them (elf(5)): header, segments, interpreter. Nothing in a file is believed
//! that would lead out of it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use object::LittleEndian as LE;
use object::elf::{
    EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PF_X, PT_GNU_STACK, PT_INTERP, PT_LOAD,
    ProgramHeader64,
};
use object::pod;
use relive_host::layout;

use crate::space;

/// The parts of an executable that loading needs.
pub struct Elf {
    /// Its header.
    pub header: FileHeader64<LE>,
    /// All segments.
    pub segments: Vec<ProgramHeader64<LE>>,
}

/// Whether exec would accept this file as an ELF program for this machine.
///
/// # Errors
/// The errno that execve(2) gives.
pub fn check(file: &File) -> Result<(), i32> {
    let elf = Elf::read(file)?;
    if elf.header.e_type.get(LE) == ET_EXEC && !elf.loads().all(is_in_reach) {
        return Err(libc::ENOMEM);
    }
    if let Some(name) = elf.interpreter(file)? {
        let path = std::str::from_utf8(&name).map_err(|_| libc::ENOENT)?;
        let interp = File::open(path).map_err(|e| e.raw_os_error().unwrap_or(libc::ENOENT))?;
        Elf::read(&interp).map_err(|_| libc::ELIBBAD)?;
    }
    Ok(())
}

/// Whether a segment that cannot be moved lies where executables can be.
fn is_in_reach(segment: &ProgramHeader64<LE>) -> bool {
    let start = segment.p_vaddr.get(LE);
    let end = start.checked_add(segment.p_memsz.get(LE));
    end.is_some_and(|end| end <= layout::LOW_END && layout::guest_may_map_range(start, end))
}

impl Elf {
    /// Reads an executable for this machine.
    ///
    /// # Errors
    /// The errno that execve(2) gives.
    pub fn read(file: &File) -> Result<Self, i32> {
        let mut bytes = [0u8; size_of::<FileHeader64<LE>>()];
        file.read_exact_at(&mut bytes, 0)
            .map_err(|_| libc::ENOEXEC)?;
        let (header, _) =
            pod::from_bytes::<FileHeader64<LE>>(&bytes).map_err(|()| libc::ENOEXEC)?;
        let ident = header.e_ident;
        let fits = ident.magic == *b"\x7fELF" && ident.class == 2 && ident.data == 1;
        let kind = header.e_type.get(LE);
        if !fits || header.e_machine.get(LE) != EM_X86_64 || (kind != ET_EXEC && kind != ET_DYN) {
            return Err(libc::ENOEXEC);
        }
        let n = usize::from(header.e_phnum.get(LE));
        if usize::from(header.e_phentsize.get(LE)) != size_of::<ProgramHeader64<LE>>()
            || n == 0
            || n > 4096
        {
            return Err(libc::ENOEXEC);
        }
        let mut table = vec![0u8; n * size_of::<ProgramHeader64<LE>>()];
        file.read_exact_at(&mut table, header.e_phoff.get(LE))
            .map_err(|_| libc::ENOEXEC)?;
        let (segments, _) = pod::slice_from_bytes(&table, n).map_err(|()| libc::ENOEXEC)?;
        Ok(Self {
            header: *header,
            segments: segments.to_vec(),
        })
    }

    /// The path of its interpreter, if it has one.
    ///
    /// # Errors
    /// The errno that execve(2) gives.
    pub fn interpreter(&self, file: &File) -> Result<Option<Vec<u8>>, i32> {
        let Some(p) = self.segments.iter().find(|p| p.p_type.get(LE) == PT_INTERP) else {
            return Ok(None);
        };
        let len = p.p_filesz.get(LE);
        if !(2..=4096).contains(&len) {
            return Err(libc::ENOEXEC);
        }
        let mut name = vec![0u8; len as usize];
        file.read_exact_at(&mut name, p.p_offset.get(LE))
            .map_err(|_| libc::EIO)?;
        if name.pop() != Some(0) {
            return Err(libc::ENOEXEC);
        }
        Ok(Some(name))
    }

    /// EXEC if it asks for a stack that can be executed, as programs with nested functions and assembly
    /// without a note do; without the header a 64-bit program has none. The last header counts, as in
    /// the kernel.
    #[must_use]
    pub fn stack_exec(&self) -> u32 {
        let mut headers = self.segments.iter().rev();
        let last = headers.find(|p| p.p_type.get(LE) == PT_GNU_STACK);
        let asked = last.is_some_and(|p| p.p_flags.get(LE) & PF_X != 0);
        if asked { space::EXEC } else { 0 }
    }

    /// The segments that take room in memory.
    pub fn loads(&self) -> impl Iterator<Item = &ProgramHeader64<LE>> {
        self.segments
            .iter()
            .filter(|p| p.p_type.get(LE) == PT_LOAD && p.p_memsz.get(LE) > 0)
    }
}
