//! Loading a program as the kernel's exec does: ELF images, interpreter, initial stack.
//!
//! The result is a [`trace::Image`]: a list of maps, writes and first registers that record
//! and replay apply with the same code (`image`); replay needs no loader. Sources: elf(5),
//! execve(2), getauxval(3), the System V x86-64 ABI, section 3.4.1.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use object::LittleEndian as LE;
use object::elf::{
    EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PF_R, PF_W, PF_X, PT_INTERP, PT_LOAD, PT_PHDR,
    ProgramHeader64,
};
use object::pod;
use relive_host::addr::PAGE;
use relive_host::layout::{self, STACK_TOP};
use relive_trace::{FileId, Image, MapKind, MapOp};
use rustix::process::{Resource, getegid, geteuid, getgid, getuid};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::resource_limits;
use crate::space::{self, AddressSpace};

/// Size of the main thread's stack under a soft limit, mapped at once: within reason.
#[must_use]
pub fn stack_bytes(limit: u64) -> u64 {
    limit.clamp(256 << 10, 512 << 20) & !(PAGE - 1)
}

fn stack_size() -> u64 {
    let limit = resource_limits::get(Resource::Stack);
    stack_bytes(limit.map_or(8 << 20, |(soft, _)| soft))
}

/// What `/proc/self/maps` calls the main thread's stack.
pub const STACK_NAME: &str = "[stack]";
/// Where the heap of brk(2) begins.
const BRK_BASE: u64 = layout::HEAP_START;

/// What to load.
pub struct Program {
    /// The executable, opened.
    pub file: File,
    /// What the program was called by (`AT_EXECFN`).
    pub called: Vec<u8>,
    /// Its canonical path (`/proc/self/exe`).
    pub path: Vec<u8>,
    /// Arguments.
    pub argv: Vec<Vec<u8>>,
    /// Environment.
    pub env: Vec<Vec<u8>>,
}

/// An image and the opened files that its maps name.
pub struct Loaded {
    /// What to set up.
    pub image: Image,
    /// The files by identity.
    pub files: Vec<(FileId, File)>,
}

/// Names the content of a file: kept in the trace while recording.
pub type Identify<'a> = &'a dyn Fn(&File) -> Result<FileId, i32>;

/// For runs that keep nothing: names a file by its device and inode.
///
/// # Errors
/// EIO when it cannot be asked.
pub fn unkept(file: &File) -> Result<FileId, i32> {
    let meta = file.metadata().map_err(|_| libc::EIO)?;
    let mut id = [0; 32];
    id[..8].copy_from_slice(&meta.dev().to_le_bytes());
    id[8..16].copy_from_slice(&meta.ino().to_le_bytes());
    Ok(FileId(id))
}

struct Elf {
    header: FileHeader64<LE>,
    segments: Vec<ProgramHeader64<LE>>,
}

struct Placed {
    bias: u64,
    entry: u64,
    phdr: u64,
}

/// Loads `program`.
///
/// # Errors
/// The errno that execve(2) gives for such a file.
pub fn load(program: &Program, identify: Identify<'_>) -> Result<Loaded, i32> {
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
    let stack = stack_size();
    let region = MapOp {
        addr: STACK_TOP - stack,
        len: stack,
        prot: (space::READ | space::WRITE) as u8,
        kind: MapKind::Anon,
        name: STACK_NAME.into(),
    };
    out.image.maps.push(region);
    let mut aux = auxv(&exe, &placed, base);
    if crate::vdso::is_shown() && space.is_free(layout::VDSO_START, layout::VDSO_END) {
        out.image.maps.push(MapOp {
            addr: layout::VDSO_START,
            len: layout::VDSO_END - layout::VDSO_START,
            prot: (space::READ | space::EXEC) as u8,
            kind: MapKind::Anon,
            name: crate::image::VDSO.into(),
        });
        let page = (layout::VDSO_START, crate::vdso::image());
        out.image.writes.push(page);
        aux.push((libc::AT_SYSINFO_EHDR, layout::VDSO_START));
    }
    let (rsp, block) = stack_block(program, &aux, stack)?;
    out.image.writes.push((rsp, block));
    out.image.path = program.path.clone();
    out.image.argv = program.argv.clone();
    out.image.env = program.env.clone();
    (out.image.rip, out.image.rsp, out.image.brk) = (rip, rsp, BRK_BASE);
    Ok(out)
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

impl Elf {
    fn read(file: &File) -> Result<Self, i32> {
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

    fn interpreter(&self, file: &File) -> Result<Option<Vec<u8>>, i32> {
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

    fn loads(&self) -> impl Iterator<Item = &ProgramHeader64<LE>> {
        self.segments
            .iter()
            .filter(|p| p.p_type.get(LE) == PT_LOAD && p.p_memsz.get(LE) > 0)
    }
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
) -> Result<Placed, i32> {
    let (mut low, mut high) = (u64::MAX, 0);
    for p in elf.loads() {
        let start = p.p_vaddr.get(LE);
        let end = start
            .checked_add(p.p_memsz.get(LE))
            .filter(|&e| e < layout::WINDOW_END)
            .ok_or(libc::ENOEXEC)?;
        if p.p_filesz.get(LE) > p.p_memsz.get(LE) || start % PAGE != p.p_offset.get(LE) % PAGE {
            return Err(libc::ENOEXEC);
        }
        low = low.min(down(start));
        high = high.max(up(end));
    }
    if low >= high {
        return Err(libc::ENOEXEC);
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
        return Err(libc::ENOMEM);
    }
    space.insert(crate::space::Region {
        start: from,
        end: to,
        prot: 0,
        shared: false,
        common: false,
        name: crate::memory::unnamed(),
        offset: 0,
        inode: 0,
        traits: space::Traits::default(),
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

/// The auxiliary vector but for the entries that point into the stack block.
fn auxv(exe: &Elf, placed: &Placed, base: u64) -> Vec<(u64, u64)> {
    // SAFETY: only reads what the kernel has told this process.
    let host = |kind: u64| unsafe { libc::getauxval(kind) };
    let ids = [
        getuid().as_raw(),
        geteuid().as_raw(),
        getgid().as_raw(),
        getegid().as_raw(),
    ]
    .map(u64::from);
    // FSGSBASE instructions would hide changes of FS from us; the guest is told to use arch_prctl.
    let hwcap2 = host(libc::AT_HWCAP2) & !2;
    vec![
        (libc::AT_HWCAP, host(libc::AT_HWCAP)),
        (libc::AT_PAGESZ, PAGE),
        (libc::AT_CLKTCK, host(libc::AT_CLKTCK)),
        (libc::AT_PHDR, placed.phdr),
        (libc::AT_PHENT, size_of::<ProgramHeader64<LE>>() as u64),
        (libc::AT_PHNUM, exe.segments.len() as u64),
        (libc::AT_BASE, base),
        (libc::AT_FLAGS, 0),
        (libc::AT_ENTRY, placed.entry),
        (libc::AT_UID, ids[0]),
        (libc::AT_EUID, ids[1]),
        (libc::AT_GID, ids[2]),
        (libc::AT_EGID, ids[3]),
        (libc::AT_SECURE, 0),
        (libc::AT_HWCAP2, hwcap2),
        (51, host(51)), // AT_MINSIGSTKSZ
    ]
}

/// Builds the block at the top of the stack; returns its address (the first stack pointer)
/// and its bytes.
fn stack_block(program: &Program, aux: &[(u64, u64)], stack: u64) -> Result<(u64, Vec<u8>), i32> {
    let mut strings: Vec<u8> = Vec::new();
    let mut offsets = Vec::new();
    let mut put = |s: &[u8], nul: bool| {
        let at = strings.len() as u64;
        strings.extend_from_slice(s);
        if nul {
            strings.push(0);
        }
        at
    };
    for s in program.argv.iter().chain(&program.env) {
        offsets.push(put(s, true));
    }
    let execfn = put(&program.called, true);
    let platform = put(b"x86_64", true);
    let random = put(&random_bytes()?, false);
    if strings.len() as u64 > stack / 4 * 3 {
        return Err(libc::E2BIG);
    }
    let base = (STACK_TOP - strings.len() as u64 - 16) & !15;
    let mut words: Vec<u64> = vec![program.argv.len() as u64];
    words.extend(offsets[..program.argv.len()].iter().map(|o| base + o));
    words.push(0);
    words.extend(offsets[program.argv.len()..].iter().map(|o| base + o));
    words.push(0);
    let pointers = [
        (libc::AT_RANDOM, random),
        (libc::AT_EXECFN, execfn),
        (libc::AT_PLATFORM, platform),
    ];
    for &(kind, value) in aux {
        words.extend([kind, value]);
    }
    for (kind, at) in pointers {
        words.extend([kind, base + at]);
    }
    words.extend([libc::AT_NULL, 0]);
    let rsp = (base - 8 * words.len() as u64) & !15;
    let mut block: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    block.resize((base - rsp) as usize, 0);
    block.extend_from_slice(&strings);
    Ok((rsp, block))
}

/// The auxiliary vector of an image, as `/proc/self/auxv` shows it (proc(5)): it lies behind the
/// arguments and the environment at the first stack pointer.
#[must_use]
pub fn shown_auxv(image: &Image, program: &Program) -> Vec<u8> {
    let Some((_, block)) = image.writes.last() else {
        return Vec::new();
    };
    let before = 8 * (program.argv.len() + program.env.len() + 3);
    let pairs = block.get(before..).unwrap_or_default().chunks_exact(16);
    let ends = |pair: &&[u8]| pair[..8] == [0; 8];
    let length = pairs.clone().position(|pair| ends(&pair)).unwrap_or(0) + 1;
    pairs.take(length).flatten().copied().collect()
}

fn random_bytes() -> Result<[u8; 16], i32> {
    let mut b = [0u8; 16];
    match getrandom(&mut b, GetRandomFlags::empty()) {
        Ok(16) => Ok(b),
        _ => Err(libc::EIO),
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
