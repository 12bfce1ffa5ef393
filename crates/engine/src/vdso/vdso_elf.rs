//! The vDSO as an ELF image: the tables by which dynamic linkers, and runtimes that read it by
//! themselves, find a function by name and version and unwind through it, and the sections that
//! debuggers need besides. Sources: elf(5), vdso(7), Linux Standard Base Core 5.0 (symbol versions,
//! `.eh_frame_hdr`), DWARF 5, section 6.4.
//!
//! Addresses in it are offsets in the image: it is one segment, read only and executable.

use object::LittleEndian as LE;
use object::elf::*;
use object::pod::bytes_of;
use object::{U16, U32, U64};
use relive_host::layout::{VDSO_END, VDSO_START};

use super::functions;

const SONAME: &str = "linux-vdso.so.1";
const VERSION: &str = "LINUX_2.6";
/// Index of the version of all symbols; 1 is the library itself.
const VERSION_INDEX: u16 = 2;

/// Sections, in the order of their bytes.
const SECTIONS: [(&str, u32, u64); 10] = [
    (".hash", SHT_HASH, 4),
    (".dynsym", SHT_DYNSYM, size_of::<Sym64<LE>>() as u64),
    (".dynstr", SHT_STRTAB, 0),
    (".gnu.version", SHT_GNU_VERSYM, 2),
    (".gnu.version_d", SHT_GNU_VERDEF, 0),
    (".dynamic", SHT_DYNAMIC, size_of::<Dyn64<LE>>() as u64),
    (".eh_frame_hdr", SHT_PROGBITS, 0),
    (".eh_frame", SHT_PROGBITS, 0),
    (".text", SHT_PROGBITS, 0),
    (".shstrtab", SHT_STRTAB, 0),
];
const DYNSYM: usize = 1;
const DYNSTR: usize = 2;
const DYNAMIC: usize = 5;
const EH_FRAME_HDR: usize = 6;
const EH_FRAME: usize = 7;
const TEXT: usize = 8;
const SEGMENTS: usize = 3;
const ALIGN: u64 = 16;

/// Strings that end with zeros, found by their offset.
struct StringTable(Vec<u8>);

impl StringTable {
    fn new() -> Self {
        Self(vec![0])
    }

    fn add(&mut self, text: &str) -> u32 {
        let at = self.0.len() as u32;
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        at
    }
}

/// The image's bytes, at most a page.
#[must_use]
pub fn image() -> Vec<u8> {
    // Offsets depend on lengths alone, which the first round computes.
    let sizes = sections(&[0; SECTIONS.len()]).map(|s| s.len() as u64);
    let mut offsets = [0; SECTIONS.len()];
    let mut end =
        (size_of::<FileHeader64<LE>>() + SEGMENTS * size_of::<ProgramHeader64<LE>>()) as u64;
    for (offset, size) in offsets.iter_mut().zip(sizes) {
        *offset = end.next_multiple_of(ALIGN);
        end = *offset + size;
    }
    let table = end.next_multiple_of(ALIGN);
    let contents = sections(&offsets);
    let length = table + (1 + SECTIONS.len() as u64) * size_of::<SectionHeader64<LE>>() as u64;
    assert!(
        length <= VDSO_END - VDSO_START,
        "the vDSO is a page at most"
    );

    let mut out = bytes_of(&header(table)).to_vec();
    for segment in segments(&offsets, &sizes, length) {
        out.extend_from_slice(bytes_of(&segment));
    }
    for (offset, content) in offsets.iter().zip(&contents) {
        out.resize(*offset as usize, 0);
        out.extend_from_slice(content);
    }
    out.resize(table as usize, 0);
    out.extend_from_slice(&[0; size_of::<SectionHeader64<LE>>()]);
    for i in 0..SECTIONS.len() {
        out.extend_from_slice(bytes_of(&section_header(i, offsets[i], sizes[i])));
    }
    out
}

/// The contents of all sections, by their offsets.
fn sections(at: &[u64; SECTIONS.len()]) -> [Vec<u8>; SECTIONS.len()] {
    let mut strings = StringTable::new();
    let soname = strings.add(SONAME);
    let version = strings.add(VERSION);
    let symbols = symbols(&mut strings, version, at[TEXT]);
    let count = symbols.len() as u32;
    let dynsym = symbols.iter().flat_map(|s| bytes_of(s).to_vec()).collect();
    // One chain of all symbols: nothing depends on the hashes of their names.
    let links = (0..count).map(|i| if i + 1 < count && i > 0 { i + 1 } else { 0 });
    let hash = [1, count, 1].into_iter().chain(links);
    let versions = (0..count).map(|i| if i == 0 { 0 } else { VERSION_INDEX });
    let mut names = StringTable::new();
    for (name, ..) in SECTIONS {
        names.add(name);
    }
    [
        hash.flat_map(u32::to_le_bytes).collect(),
        dynsym,
        strings.0.clone(),
        versions.flat_map(u16::to_le_bytes).collect(),
        version_definitions(soname, version),
        dynamic(at, strings.0.len() as u64, soname),
        frame_header(at),
        frames(at),
        functions::bytes().to_vec(),
        names.0,
    ]
}

/// Each function under two names, as in the kernel's, and the version.
fn symbols(strings: &mut StringTable, version: u32, text: u64) -> Vec<Sym64<LE>> {
    let symbol = |name, info, section, at, size| Sym64 {
        st_name: U32::new(LE, name),
        st_info: info,
        st_other: 0,
        st_shndx: U16::new(LE, section),
        st_value: U64::new(LE, at),
        st_size: U64::new(LE, size),
    };
    let mut all = vec![symbol(0, 0, 0, 0, 0)];
    for (name, offset, size) in functions::functions() {
        let [own, alias] = [format!("__vdso_{name}"), name.to_owned()].map(|n| strings.add(&n));
        for (name, bind) in [(own, STB_GLOBAL), (alias, STB_WEAK)] {
            let info = bind << 4 | STT_FUNC;
            all.push(symbol(name, info, TEXT as u16 + 1, text + offset, size));
        }
    }
    let info = STB_GLOBAL << 4 | STT_OBJECT;
    all.push(symbol(version, info, SHN_ABS, 0, 0));
    all
}

fn version_definitions(soname: u32, version: u32) -> Vec<u8> {
    let (entry, name) = (size_of::<Verdef<LE>>(), size_of::<Verdaux<LE>>());
    let rows = [
        (VER_FLG_BASE, 1, SONAME, soname, entry + name),
        (0, VERSION_INDEX, VERSION, version, 0),
    ];
    let mut out = Vec::new();
    for (flags, index, text, at, next) in rows {
        out.extend_from_slice(bytes_of(&Verdef {
            vd_version: U16::new(LE, VER_DEF_CURRENT),
            vd_flags: U16::new(LE, flags),
            vd_ndx: U16::new(LE, index),
            vd_cnt: U16::new(LE, 1),
            vd_hash: U32::new(LE, hash(text.as_bytes())),
            vd_aux: U32::new(LE, entry as u32),
            vd_next: U32::new(LE, next as u32),
        }));
        out.extend_from_slice(bytes_of(&Verdaux {
            vda_name: U32::new(LE, at),
            vda_next: U32::new(LE, 0),
        }));
    }
    out
}

fn dynamic(at: &[u64; SECTIONS.len()], strings: u64, soname: u32) -> Vec<u8> {
    let rows = [
        (DT_SONAME, u64::from(soname)),
        (DT_HASH, at[0]),
        (DT_SYMTAB, at[DYNSYM]),
        (DT_SYMENT, SECTIONS[DYNSYM].2),
        (DT_STRTAB, at[DYNSTR]),
        (DT_STRSZ, strings),
        (DT_VERSYM, at[3]),
        (DT_VERDEF, at[4]),
        (DT_VERDEFNUM, 2),
        (DT_NULL, 0),
    ];
    let row = |(tag, value)| Dyn64 {
        d_tag: U64::<LE>::new(LE, u64::from(tag)),
        d_val: U64::new(LE, value),
    };
    rows.into_iter()
        .flat_map(|r| bytes_of(&row(r)).to_vec())
        .collect()
}

/// Pointers of the frame tables: relative to where they are, or to the header; 4 bytes.
const PCREL: u8 = 0x1b;
const DATAREL: u8 = 0x3b;
const UDATA4: u8 = 0x03;
/// Bytes of the common entry, and of its length and identity.
const CIE: u64 = 24;
/// The offset of the one function range in its entry.
const RANGE: u64 = 8;

/// The frames: one description for all code, which never moves the stack pointer.
fn frames(at: &[u64; SECTIONS.len()]) -> Vec<u8> {
    let mut out = Vec::new();
    let word = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
    word(&mut out, CIE as u32 - 4);
    word(&mut out, 0);
    // Version 1, "zR", code alignment 1, data alignment -8, return address in column 16.
    out.extend_from_slice(b"\x01zR\0\x01\x78\x10\x01");
    out.push(PCREL);
    // CFA = rsp + 8; the return address is at CFA - 8; padding.
    out.extend_from_slice(&[0x0c, 7, 8, 0x90, 1, 0, 0]);
    let from = at[EH_FRAME] + CIE + RANGE;
    word(&mut out, 20);
    word(&mut out, CIE as u32 + 4);
    word(&mut out, at[TEXT].wrapping_sub(from) as u32);
    word(&mut out, functions::bytes().len() as u32);
    // No data of its own; padding; and the end of the table.
    out.extend_from_slice(&[0; 8]);
    word(&mut out, 0);
    out
}

fn frame_header(at: &[u64; SECTIONS.len()]) -> Vec<u8> {
    let here = at[EH_FRAME_HDR];
    let mut out = vec![1, PCREL, UDATA4, DATAREL];
    let words = [
        at[EH_FRAME].wrapping_sub(here + 4),
        1,
        at[TEXT].wrapping_sub(here),
        (at[EH_FRAME] + CIE).wrapping_sub(here),
    ];
    out.extend(words.iter().flat_map(|w| (*w as u32).to_le_bytes()));
    out
}

fn header(sections: u64) -> FileHeader64<LE> {
    let number = |n: usize| U16::new(LE, n as u16);
    FileHeader64 {
        e_ident: Ident {
            magic: ELFMAG,
            class: ELFCLASS64,
            data: ELFDATA2LSB,
            version: EV_CURRENT,
            os_abi: ELFOSABI_SYSV,
            abi_version: 0,
            padding: [0; 7],
        },
        e_type: U16::new(LE, ET_DYN),
        e_machine: U16::new(LE, EM_X86_64),
        e_version: U32::new(LE, EV_CURRENT.into()),
        e_entry: U64::new(LE, 0),
        e_phoff: U64::new(LE, size_of::<FileHeader64<LE>>() as u64),
        e_shoff: U64::new(LE, sections),
        e_flags: U32::new(LE, 0),
        e_ehsize: number(size_of::<FileHeader64<LE>>()),
        e_phentsize: number(size_of::<ProgramHeader64<LE>>()),
        e_phnum: number(SEGMENTS),
        e_shentsize: number(size_of::<SectionHeader64<LE>>()),
        e_shnum: number(1 + SECTIONS.len()),
        e_shstrndx: number(SECTIONS.len()),
    }
}

fn segments(
    at: &[u64; SECTIONS.len()],
    sizes: &[u64; SECTIONS.len()],
    length: u64,
) -> [ProgramHeader64<LE>; SEGMENTS] {
    let rows = [
        (PT_LOAD, PF_R | PF_X, 0, length, 0x1000),
        (PT_DYNAMIC, PF_R, at[DYNAMIC], sizes[DYNAMIC], 8),
        (
            PT_GNU_EH_FRAME,
            PF_R,
            at[EH_FRAME_HDR],
            sizes[EH_FRAME_HDR],
            4,
        ),
    ];
    rows.map(|(kind, flags, offset, size, align)| ProgramHeader64 {
        p_type: U32::new(LE, kind),
        p_flags: U32::new(LE, flags),
        p_offset: U64::new(LE, offset),
        p_vaddr: U64::new(LE, offset),
        p_paddr: U64::new(LE, offset),
        p_filesz: U64::new(LE, size),
        p_memsz: U64::new(LE, size),
        p_align: U64::new(LE, align),
    })
}

fn section_header(index: usize, offset: u64, size: u64) -> SectionHeader64<LE> {
    let (_, kind, entry) = SECTIONS[index];
    let mut names = StringTable::new();
    let name = SECTIONS[..=index].iter().fold(0, |_, row| names.add(row.0));
    let (mut link, mut info, mut flags) = (0, 0, SHF_ALLOC);
    match kind {
        SHT_HASH | SHT_GNU_VERSYM => link = DYNSYM as u32 + 1,
        SHT_DYNSYM => (link, info) = (DYNSTR as u32 + 1, 1),
        SHT_GNU_VERDEF => (link, info) = (DYNSTR as u32 + 1, 2),
        SHT_DYNAMIC => link = DYNSTR as u32 + 1,
        _ => {}
    }
    if index == TEXT {
        flags |= SHF_EXECINSTR;
    }
    if index + 1 == SECTIONS.len() {
        flags = 0;
    }
    SectionHeader64 {
        sh_name: U32::new(LE, name),
        sh_type: U32::new(LE, kind),
        sh_flags: U64::new(LE, flags.into()),
        sh_addr: U64::new(LE, if flags == 0 { 0 } else { offset }),
        sh_offset: U64::new(LE, offset),
        sh_size: U64::new(LE, size),
        sh_link: U32::new(LE, link),
        sh_info: U32::new(LE, info),
        sh_addralign: U64::new(LE, 1),
        sh_entsize: U64::new(LE, entry),
    }
}

#[cfg(test)]
mod tests {
    use object::read::elf::{ElfFile64, FileHeader as _, SectionTable, VersionTable};
    use object::{Object, ObjectSymbol};

    use super::*;

    #[test]
    fn readers_find_every_function_by_name() {
        let bytes = image();
        let elf = ElfFile64::<LE>::parse(&*bytes).expect("an ELF image");
        for (name, offset, size) in functions::functions() {
            let code = &functions::bytes()[offset as usize..(offset + size) as usize];
            for name in [format!("__vdso_{name}"), name.to_owned()] {
                let symbol = elf.dynamic_symbols().find(|s| s.name() == Ok(&name));
                let symbol = symbol.expect("a symbol");
                let at = symbol.address() as usize;
                assert_eq!(&bytes[at..at + symbol.size() as usize], code);
            }
        }
        let header = FileHeader64::<LE>::parse(&*bytes).expect("a header");
        let table: SectionTable<'_, _> = header.sections(LE, &*bytes).expect("sections");
        let versions: VersionTable<'_, _> = table
            .versions(LE, &*bytes)
            .expect("versions")
            .expect("some");
        assert!(!versions.is_empty());
        assert_eq!(hash(VERSION.as_bytes()), 0x03ae_75f6);
    }
}
