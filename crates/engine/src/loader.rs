//! Loading a program as the kernel's exec does: ELF images, interpreter, initial stack.
//!
//! The result is a [`relive_trace::Image`]: a list of maps, writes and first registers that record
//! and replay apply with the same code (`image`); replay needs no loader. Sources: execve(2).

mod elf;
mod exec_args;
mod stack;

pub use elf::check;
pub use exec_args::Program;
pub use stack::{bytes as stack_bytes, shown_auxv};

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::LittleEndian as LE;
use object::elf::{ET_DYN, PF_R, PF_W, PF_X, PT_PHDR, ProgramHeader64};
use relive_host::addr::PAGE;
use relive_host::layout;
use relive_trace::{FileId, Image, MapKind, MapOp};

use elf::Elf;

use crate::failure::Failure;
use crate::map_names::{self, unnamed};
use crate::space::{self, AddressSpace};

/// Where the heap of brk(2) begins.
const BRK_BASE: u64 = layout::HEAP_START;

/// An image and the opened files that its maps name.
pub struct Loaded {
    /// The maps, writes and registers to set up.
    pub image: Image,
    /// The files by identity.
    pub files: Vec<(FileId, File)>,
}

/// Why a program is not loaded.
#[derive(Debug)]
pub enum Refusal {
    /// The errno that execve(2) gives for such a file.
    Errno(i32),
    /// Its content cannot be kept.
    Failed(Failure),
}

impl From<i32> for Refusal {
    fn from(errno: i32) -> Self {
        Self::Errno(errno)
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Names the content of a file: kept in the trace while recording.
pub type Identify<'a> = &'a dyn Fn(&File) -> Result<FileId, Refusal>;

/// For runs that keep nothing: names a file by its device and inode.
///
/// # Errors
/// EIO when it cannot be asked.
pub fn unkept(file: &File) -> Result<FileId, Refusal> {
    let meta = file.metadata().map_err(|_| libc::EIO)?;
    let mut id = [0; 32];
    id[..8].copy_from_slice(&meta.dev().to_le_bytes());
    id[8..16].copy_from_slice(&meta.ino().to_le_bytes());
    Ok(FileId(id))
}

struct Placed {
    bias: u64,
    entry: u64,
    phdr: u64,
}

/// Loads `program`.
///
/// # Errors
/// It cannot be executed, or not be kept.
pub fn load(program: &Program, identify: Identify<'_>) -> Result<Loaded, Refusal> {
    let mut out = Loaded {
        image: Image::default(),
        files: Vec::new(),
    };
    let mut space = AddressSpace::new();
    let exe = Elf::read(&program.file)?;
    let placed = place(
        &exe,
        &program.file,
        &program.path,
        identify,
        &mut space,
        &mut out,
    )?;
    let (mut rip, mut base) = (placed.entry, 0);
    if let Some(name) = exe.interpreter(&program.file)? {
        let path = std::str::from_utf8(&name).map_err(|_| libc::ENOENT)?;
        let file = File::open(path).map_err(|e| e.raw_os_error().unwrap_or(libc::ENOENT))?;
        let elf = Elf::read(&file).map_err(|_| libc::ELIBBAD)?;
        let canonical = canonical(&file, &name);
        let interp = place(&elf, &file, &canonical, identify, &mut space, &mut out)?;
        (rip, base) = (interp.entry, interp.bias);
    }
    let stack = stack::size();
    let region = MapOp {
        addr: layout::STACK_TOP - stack,
        len: stack,
        prot: (space::READ | space::WRITE | exe.stack_exec()) as u8,
        kind: MapKind::Anon,
        name: map_names::STACK.into(),
    };
    out.image.maps.push(region);
    let mut aux = stack::auxv(&exe, (placed.phdr, placed.entry), base);
    if crate::vdso::is_shown() && space.is_free(layout::VDSO_START, layout::VDSO_END) {
        out.image.maps.push(MapOp {
            addr: layout::VDSO_START,
            len: layout::VDSO_END - layout::VDSO_START,
            prot: (space::READ | space::EXEC) as u8,
            kind: MapKind::Anon,
            name: map_names::VDSO.into(),
        });
        let page = (layout::VDSO_START, crate::vdso::image());
        out.image.writes.push(page);
        aux.push((libc::AT_SYSINFO_EHDR, layout::VDSO_START));
    }
    let (rsp, block) = stack::block(program, &aux, stack)?;
    out.image.writes.push((rsp, block));
    out.image.path = program.path.clone();
    out.image.argv = program.argv.clone();
    out.image.env = program.env.clone();
    (out.image.rip, out.image.rsp, out.image.brk) = (rip, rsp, BRK_BASE);
    Ok(out)
}

/// The canonical path of an open file, which was opened by the name `called`.
#[must_use]
pub fn canonical(file: &File, called: &[u8]) -> Vec<u8> {
    let named = Path::new(OsStr::from_bytes(called));
    // One call instead of one for each part of the path.
    let shown = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let path = shown.ok().filter(|p: &PathBuf| p.is_absolute());
    let path = path.or_else(|| std::fs::canonicalize(named).ok());
    path.map_or_else(|| called.to_vec(), |p| p.into_os_string().into_vec())
}

fn down(x: u64) -> u64 {
    x & !(PAGE - 1)
}

fn up(x: u64) -> u64 {
    (x + PAGE - 1) & !(PAGE - 1)
}

fn place(
    elf: &Elf,
    file: &File,
    path: &[u8],
    identify: Identify<'_>,
    space: &mut AddressSpace,
    out: &mut Loaded,
) -> Result<Placed, Refusal> {
    let (mut low, mut high) = (u64::MAX, 0);
    for p in elf.loads() {
        let start = p.p_vaddr.get(LE);
        let end = start
            .checked_add(p.p_memsz.get(LE))
            .filter(|&e| e < layout::WINDOW_END)
            .ok_or(libc::ENOEXEC)?;
        if p.p_filesz.get(LE) > p.p_memsz.get(LE) || start % PAGE != p.p_offset.get(LE) % PAGE {
            return Err(libc::ENOEXEC.into());
        }
        low = low.min(down(start));
        high = high.max(up(end));
    }
    if low >= high {
        return Err(libc::ENOEXEC.into());
    }
    let bias = if elf.header.e_type.get(LE) == ET_DYN {
        let align = elf
            .loads()
            .map(|p| p.p_align.get(LE))
            .filter(|a| a.is_power_of_two())
            .max()
            .unwrap_or(PAGE)
            .clamp(PAGE, 1 << 21);
        let room = space
            .find_free(high - low + align, true)
            .ok_or(libc::ENOMEM)?;
        ((room + align - 1) & !(align - 1)).wrapping_sub(low)
    } else {
        0
    };
    let (from, to) = (low.wrapping_add(bias), high.wrapping_add(bias));
    let fits = to <= layout::LOW_END && layout::guest_may_map_range(from, to);
    if !fits || !space.is_free(from, to) {
        return Err(libc::ENOMEM.into());
    }
    space.insert(crate::space::Region {
        start: from,
        end: to,
        prot: 0,
        shared: false,
        common: false,
        name: unnamed(),
        offset: 0,
        inode: 0,
        copy: None,
        traits: space::RegionTraits::default(),
    });
    let id = identify(file)?;
    out.files
        .push((id, file.try_clone().map_err(|_| libc::EMFILE)?));
    let name = String::from_utf8_lossy(path).into_owned();
    for p in elf.loads() {
        segment(p, bias, id, &name, &mut out.image);
    }
    let phoff = elf.header.e_phoff.get(LE);
    let phdr = elf
        .segments
        .iter()
        .find(|p| p.p_type.get(LE) == PT_PHDR)
        .map(|p| p.p_vaddr.get(LE))
        .or_else(|| {
            elf.loads()
                .find(|p| {
                    (p.p_offset.get(LE)..p.p_offset.get(LE) + p.p_filesz.get(LE)).contains(&phoff)
                })
                .map(|p| phoff - p.p_offset.get(LE) + p.p_vaddr.get(LE))
        });
    Ok(Placed {
        bias,
        entry: elf.header.e_entry.get(LE).wrapping_add(bias),
        phdr: phdr.map_or(0, |a| a.wrapping_add(bias)),
    })
}

/// One PT_LOAD: the file part, the zeroed rest of its last page, anonymous pages behind.
fn segment(p: &ProgramHeader64<LE>, bias: u64, file: FileId, name: &str, image: &mut Image) {
    let bits = |pf: u32, prot: u32| if p.p_flags.get(LE) & pf != 0 { prot } else { 0 };
    let prot = bits(PF_R, space::READ) | bits(PF_W, space::WRITE) | bits(PF_X, space::EXEC);
    let vaddr = p.p_vaddr.get(LE).wrapping_add(bias);
    let (start, file_end, end) = (
        down(vaddr),
        vaddr + p.p_filesz.get(LE),
        up(vaddr + p.p_memsz.get(LE)),
    );
    let mapped = if p.p_filesz.get(LE) > 0 {
        up(file_end)
    } else {
        start
    };
    if mapped > start {
        image.maps.push(MapOp {
            addr: start,
            len: mapped - start,
            prot: prot as u8,
            kind: MapKind::File {
                file,
                offset: down(p.p_offset.get(LE)),
            },
            name: name.to_owned(),
        });
        if p.p_memsz.get(LE) > p.p_filesz.get(LE) && mapped > file_end && prot & space::WRITE != 0 {
            image
                .writes
                .push((file_end, vec![0; (mapped - file_end) as usize]));
        }
    }
    if end > mapped {
        image.maps.push(MapOp {
            addr: mapped,
            len: end - mapped,
            prot: prot as u8,
            kind: MapKind::Anon,
            name: String::new(),
        });
    }
}

/// The descriptor of a loaded file.
#[must_use]
pub fn descriptor(files: &[(FileId, File)], id: FileId) -> Option<i32> {
    files
        .iter()
        .find(|(f, _)| *f == id)
        .map(|(_, f)| f.as_raw_fd())
}
