//! Replay: the memory behind files that are mapped shared. All of it lies in one sparse
//! memfd, made before the first fork, so that every process of the replay can map every
//! object; which object lies where stands in the shared memory.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_host::sys;

use super::lock::Lock;

/// Browsers and the like make one for each picture that they pass on.
const OBJECTS: usize = 1 << 16;
/// Room for each object, as a power of two: more than any file that is mapped whole.
const ROOM_BITS: u32 = 40;

/// Where each object lies.
#[repr(C)]
pub struct Objects {
    lock: Lock,
    objects: [Object; OBJECTS],
}

#[repr(C)]
struct Object {
    /// Identity of the file; 0 = unused.
    file: AtomicU64,
    /// Its content ends here.
    len: AtomicU64,
}

impl Objects {
    /// Brings the object of a file to the given content and returns its offset in `pool`;
    /// `None`: there are too many, or it is too large.
    ///
    /// # Errors
    /// The pool cannot grow.
    pub fn fill(&self, pool: &File, file: u64, content: &File) -> std::io::Result<Option<u64>> {
        let _guard = self.lock.take(sys::gettid());
        let same = |o: &Object| matches!(o.file.load(Ordering::Acquire), f if f == 0 || f == file);
        let Some(at) = self.objects.iter().position(same) else {
            return Ok(None);
        };
        let object = &self.objects[at];
        let base = (at as u64) << ROOM_BITS;
        let len = length(content)?;
        if len > 1 << ROOM_BITS {
            return Ok(None);
        }
        object.file.store(file, Ordering::Release);
        let old = object.len.swap(len, Ordering::AcqRel);
        copy(content, pool, base, len)?;
        zero(pool, base + len, old.saturating_sub(len))?;
        Ok(Some(base))
    }

    /// Where a file lies that has been filled in.
    pub fn base(&self, file: u64) -> Option<u64> {
        let is = |o: &Object| o.file.load(Ordering::Acquire) == file;
        let at = self.objects.iter().position(is).filter(|_| file != 0)?;
        Some((at as u64) << ROOM_BITS)
    }

    /// Makes the pool reach to the end of a map.
    ///
    /// # Errors
    /// The pool cannot grow.
    pub fn reach(&self, pool: &File, end: u64) -> std::io::Result<()> {
        let _guard = self.lock.take(sys::gettid());
        if length(pool)? < end {
            pool.set_len(end)?;
        }
        Ok(())
    }
}

/// Length of an open file, by a call that a replay may make.
///
/// # Errors
/// The kernel's refusal.
pub fn length(file: &File) -> std::io::Result<u64> {
    match sys::fstat(file.as_raw_fd()) {
        Ok(stat) => Ok(stat.st_size as u64),
        Err(errno) => Err(std::io::Error::from_raw_os_error(errno)),
    }
}

/// Writes what differs only: pages that are not there are zeros, and stay away.
fn copy(from: &File, to: &File, base: u64, len: u64) -> std::io::Result<()> {
    let room = (1 << 16).min(len as usize).max(1);
    let (mut new, mut old) = (vec![0; room], vec![0; room]);
    let mut at = 0;
    while at < len {
        let n = from.read_at(&mut new, at)?;
        if n == 0 {
            break;
        }
        let there = to.read_at(&mut old[..n], base + at)?;
        old[there..n].fill(0);
        if new[..n] != old[..n] {
            to.write_all_at(&new[..n], base + at)?;
        }
        at += n as u64;
    }
    Ok(())
}

fn zero(to: &File, from: u64, len: u64) -> std::io::Result<()> {
    let zeros = [0; 4096];
    let mut at = 0;
    while at < len {
        let n = (len - at).min(4096);
        to.write_all_at(&zeros[..n as usize], from + at)?;
        at += n;
    }
    Ok(())
}

/// The pool, with the largest room that the limits of this process allow.
///
/// # Errors
/// The kernel's refusal.
pub fn pool() -> std::io::Result<File> {
    let pool = crate::kernel::exec::memfd(&[])?;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: reads and sets a limit of this process, which runs no program but the replay.
    unsafe {
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
        // Beyond that, an error says so.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    Ok(pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_place_and_its_content() {
        // SAFETY: all fields are atomics, for which zeros are a value.
        let objects = unsafe { Box::<Objects>::new_zeroed().assume_init() };
        let file = |text: &[u8]| crate::kernel::exec::memfd(text).expect("a memfd");
        let pool = file(b"");
        let put = |id, text: &[u8]| {
            let at = objects.fill(&pool, id, &file(text));
            at.expect("it grows").expect("room")
        };
        let (a, b) = (put(7, b"first"), put(8, b"other"));
        assert_ne!(a, b);
        assert_eq!(put(7, b"1st"), a, "the same file, the same place");
        assert_eq!((objects.base(8), objects.base(9)), (Some(b), None));
        assert_eq!(objects.base(0), None, "what is unused is no file");
        objects.reach(&pool, b + 8192).expect("it grows");
        let read = |at| {
            let mut bytes = [1; 6];
            pool.read_exact_at(&mut bytes, at)
                .expect("it reaches there");
            bytes
        };
        assert_eq!((read(a), read(b)), (*b"1st\0\0\0", *b"other\0"));
    }
}
