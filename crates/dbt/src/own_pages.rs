//! The place of a static of this executable in its file, so that it can be mapped once more.

use relive_host::sys;

use crate::stop::Error;

const NOT_THERE: Error = Error::System {
    what: "finding own data in the own executable",
    errno: libc::ENOEXEC,
};

/// Opens this executable's file, or takes it over, at a number of at least `fd_floor`. Returns the descriptor and
/// the offset of `bytes`, which are a page-aligned part of a static.
///
/// # Errors
/// The kernel refuses, or the file differs from the mapped executable.
pub(crate) fn open(
    bytes: &'static [u8],
    fd_floor: i32,
    own_file: Option<i32>,
) -> Result<(i32, u64), Error> {
    let offset = offset_of(bytes).ok_or(NOT_THERE)?;
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
    let path = c"/proc/self/exe";
    let low = match own_file {
        Some(fd) => fd as u64,
        None => {
            // SAFETY: the path outlives the call.
            let ret = unsafe {
                let args = [path.as_ptr() as u64, flags, 0, 0, 0, 0];
                sys::syscall(libc::SYS_open as u64, args)
            };
            Error::check("opening the own executable", ret)?
        }
    };
    let fd = place(low, fd_floor)?;
    for at in [0, bytes.len() - 64] {
        let mut seen = [0u8; 64];
        // SAFETY: fills the buffer.
        let ret = unsafe {
            let args = [fd, seen.as_mut_ptr() as u64, 64, offset + at as u64, 0, 0];
            sys::syscall(libc::SYS_pread64 as u64, args)
        };
        let n = Error::check("reading the own executable", ret)?;
        if n != 64 || seen != bytes[at..at + 64] {
            return Err(NOT_THERE);
        }
    }
    Ok((fd as i32, offset))
}

/// Moves a descriptor to a number that is high enough. One that is high enough already stays, as
/// the limit may be lower by now.
pub(crate) fn place(low: u64, fd_floor: i32) -> Result<u64, Error> {
    const WHAT: &str = "moving an own descriptor";
    // SAFETY: changes our own descriptor.
    let fcntl = |what: i32, value: i32| unsafe {
        let args = [low, what as u64, value as u64, 0, 0, 0];
        sys::syscall(libc::SYS_fcntl as u64, args)
    };
    if low >= fd_floor as u64 {
        Error::check(WHAT, fcntl(libc::F_SETFD, libc::FD_CLOEXEC))?;
        return Ok(low);
    }
    let ret = fcntl(libc::F_DUPFD_CLOEXEC, fd_floor);
    // SAFETY: the original is not used any more.
    unsafe { sys::syscall(libc::SYS_close as u64, [low, 0, 0, 0, 0, 0]) };
    Error::check(WHAT, ret)
}

/// Distinguishes this build of the executable, open as `fd`, from every other one: its file, and
/// the time of its last change.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn identity(fd: i32) -> Result<Vec<u8>, Error> {
    let stat = sys::fstat(fd).map_err(|errno| Error::System {
        what: "asking for the own executable",
        errno,
    })?;
    let words = [
        stat.st_dev,
        stat.st_ino,
        stat.st_size as u64,
        stat.st_mtime as u64,
        stat.st_mtime_nsec as u64,
        stat.st_ctime as u64,
        stat.st_ctime_nsec as u64,
    ];
    Ok(words.iter().flat_map(|w| w.to_le_bytes()).collect())
}

/// The file offset of a static, from the program headers that the kernel passed on.
fn offset_of(bytes: &'static [u8]) -> Option<u64> {
    let at = bytes.as_ptr() as u64;
    // SAFETY: only reads the auxiliary vector.
    let (table, count) = unsafe {
        (
            libc::getauxval(libc::AT_PHDR),
            libc::getauxval(libc::AT_PHNUM),
        )
    };
    // SAFETY: the kernel vouches for address and count, and program headers stay mapped.
    let headers =
        unsafe { std::slice::from_raw_parts(table as *const libc::Elf64_Phdr, count as usize) };
    let own = headers.iter().find(|h| h.p_type == libc::PT_PHDR)?;
    let base = table.wrapping_sub(own.p_vaddr);
    headers
        .iter()
        .filter(|h| h.p_type == libc::PT_LOAD)
        .find_map(|h| {
            let inside = at.checked_sub(base.wrapping_add(h.p_vaddr))?;
            let fits = inside.checked_add(bytes.len() as u64)? <= h.p_filesz;
            let offset = h.p_offset + inside;
            (fits && offset % 4096 == 0).then_some(offset)
        })
}
