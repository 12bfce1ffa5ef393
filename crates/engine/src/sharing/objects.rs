//! Replay: the memory behind files that are mapped shared. All of it lies in one sparse
//! memfd, made before the first fork, so that every process of the replay can map every
//! object; which object lies where stands in the shared memory.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_host::addr::PAGE;
use relive_host::signal::{Disposition, set_disposition};
use relive_host::sys;
use relive_trace::PartReader;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::Resource;

use super::lock::Lock;
use crate::ids;
use crate::resource_limits;
use crate::section::{Section, Shareable};

/// Browsers and the like make one for each picture that they pass on.
const OBJECTS: usize = 1 << 16;
const ROOM_BITS: u32 = 46;
/// Room for each object: more than any map reaches to.
pub const ROOM: u64 = 1 << ROOM_BITS;

/// Where each object lies.
#[repr(C)]
pub struct Objects {
    lock: Lock,
    objects: [SharedFile; OBJECTS],
}

#[repr(C)]
struct SharedFile {
    /// Identity of the file; 0 = unused.
    file: AtomicU64,
    /// Its content ends here.
    len: AtomicU64,
}

/// The memory that stands for files mapped shared (replay).
pub static SHARED_FILES: Section<Objects> = Section::new();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Objects {}

impl Objects {
    /// Brings the object of a file to the given content and returns its offset in `pool`;
    /// `None`: there are too many, or it is too large.
    ///
    /// # Errors
    /// The pool cannot grow.
    pub fn fill(&self, pool: &File, file: u64, content: &File) -> std::io::Result<Option<u64>> {
        let _guard = self.lock.take(ids::thread());
        let len = length(content)?;
        let Some(base) = self.place(file).filter(|_| len <= ROOM) else {
            return Ok(None);
        };
        let read = |bytes: &mut [u8], at| content.read_exact_at(bytes, at);
        copy(pool, (base, len), read)?;
        self.ends(pool, base, len)?;
        Ok(Some(base))
    }

    /// The same in a range only; the content of the object elsewhere stays.
    ///
    /// # Errors
    /// The pool cannot grow, or the part is damaged.
    pub fn fill_part(
        &self,
        pool: &File,
        file: u64,
        content: &mut PartReader,
    ) -> std::io::Result<Option<u64>> {
        let _guard = self.lock.take(ids::thread());
        let part = content.part();
        let Some(base) = self.place(file).filter(|_| part.end <= ROOM) else {
            return Ok(None);
        };
        // A map that has grown does not know it.
        let size = (part.size != u64::MAX).then(|| part.size.min(ROOM));
        let mut at = part.start;
        while let Some(run) = content.run()? {
            empty(pool, base + at, run.offset - at)?;
            let read = |bytes: &mut [u8], from| content.read(&run, bytes, from);
            copy(pool, (base + run.offset, run.len), read)?;
            at = run.offset + run.len;
        }
        // Behind the end of the file its last page may hold bytes written through maps.
        let last = size.map_or(part.end, |size| size.min(part.end).max(at));
        empty(pool, base + at, last - at)?;
        let behind = last.next_multiple_of(PAGE);
        empty(pool, base + behind, part.end.saturating_sub(behind))?;
        if let Some(size) = size {
            self.ends(pool, base, size)?;
        }
        Ok(Some(base))
    }

    /// Under the lock: where the object of a file lies, from now on; `None`: there are too many.
    fn place(&self, file: u64) -> Option<u64> {
        let same =
            |o: &SharedFile| matches!(o.file.load(Ordering::Acquire), f if f == 0 || f == file);
        let at = self.objects.iter().position(same)?;
        self.objects[at].file.store(file, Ordering::Release);
        Some((at as u64) << ROOM_BITS)
    }

    /// Under the lock: the content of an object ends here, and nothing is left behind that.
    fn ends(&self, pool: &File, base: u64, len: u64) -> std::io::Result<()> {
        let object = &self.objects[(base >> ROOM_BITS) as usize];
        let old = object.len.swap(len, Ordering::AcqRel);
        empty(pool, base + len, old.saturating_sub(len))
    }

    /// Where a file lies that has been filled in.
    pub fn base(&self, file: u64) -> Option<u64> {
        let is = |o: &SharedFile| o.file.load(Ordering::Acquire) == file;
        let at = self.objects.iter().position(is).filter(|_| file != 0)?;
        Some((at as u64) << ROOM_BITS)
    }

    /// All files that have been filled in: identity, and where their content ends.
    pub fn capture(&self) -> Vec<(u64, u64)> {
        let both = |o: &SharedFile| {
            (
                o.file.load(Ordering::Acquire),
                o.len.load(Ordering::Acquire),
            )
        };
        let used = self.objects.iter().map(both);
        used.take_while(|(file, _)| *file != 0).collect()
    }

    /// Gives a file its place, and its content an end that is not before the one that it had. `false`: there are too
    /// many, or it is too large.
    pub fn restore(&self, file: u64, len: u64) -> bool {
        let _guard = self.lock.take(ids::thread());
        let base = self.place(file).filter(|_| file != 0 && len <= ROOM);
        if let Some(base) = base {
            let object = &self.objects[(base >> ROOM_BITS) as usize];
            // Another process of an excerpt may have seen more of it.
            object.len.fetch_max(len, Ordering::AcqRel);
        }
        base.is_some()
    }

    /// Makes the pool reach to the end of a map.
    ///
    /// # Errors
    /// The pool cannot grow.
    pub fn reach(&self, pool: &File, end: u64) -> std::io::Result<()> {
        let _guard = self.lock.take(ids::thread());
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

/// Brings a range, which is given by its start and its length, to the content that `read` gives
/// from 0 on. Writes differing bytes only: pages that are not there are zeros, and stay away.
fn copy(
    to: &File,
    (start, len): (u64, u64),
    mut read: impl FnMut(&mut [u8], u64) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let room = (1 << 16).min(len as usize).max(1);
    let (mut new, mut old) = (vec![0; room], vec![0; room]);
    let mut at = 0;
    while at < len {
        let n = room.min((len - at) as usize);
        read(&mut new[..n], at)?;
        let there = to.read_at(&mut old[..n], start + at)?;
        old[there..n].fill(0);
        if new[..n] != old[..n] {
            to.write_all_at(&new[..n], start + at)?;
        }
        at += n as u64;
    }
    Ok(())
}

/// Makes a range zeros, and gives its memory back if it was something else.
fn empty(pool: &File, start: u64, len: u64) -> std::io::Result<()> {
    /// Largest range that is read first: the kernel takes what it gives back out of each map of it, and there may be thousands.
    const LOOK: u64 = 1 << 16;
    if len == 0 {
        return Ok(());
    }
    if len <= LOOK {
        let mut there = vec![0; len as usize];
        let read = pool.read_at(&mut there, start)?;
        if there[..read].iter().all(|&byte| byte == 0) {
            return Ok(());
        }
    }
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(pool, mode, start, len)?)
}

/// The pool, with the largest room that the limits of this process allow.
///
/// # Errors
/// The kernel's refusal.
pub fn pool() -> std::io::Result<File> {
    let pool = crate::memfd::with(&[])?;
    if let Some((_, hard)) = resource_limits::get(Resource::Fsize) {
        resource_limits::set(Resource::Fsize, (hard, hard));
    }
    // Beyond that, an error says so.
    set_disposition(libc::SIGXFSZ, Disposition::Ignore);
    Ok(pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_place_and_its_content() {
        // SAFETY: all fields are atomics, for which zeros are a value.
        let objects = unsafe { Box::<Objects>::new_zeroed().assume_init() };
        let file = |text: &[u8]| crate::memfd::with(text).expect("a memfd");
        let pool = file(b"");
        let put = |id, text: &[u8]| {
            let at = objects.fill(&pool, id, &file(text));
            at.expect("it grows").expect("room")
        };
        let (a, b) = (put(7, b"first"), put(8, b"other"));
        assert_ne!(a, b);
        assert_eq!(put(7, b"1st"), a, "the same file, the same place");
        assert_eq!((objects.base(8), objects.base(9)), (Some(b), None));
        assert_eq!(objects.base(0), None, "an unused entry is no file");
        objects.reach(&pool, b + 8192).expect("it grows");
        let read = |at| {
            let mut bytes = [1; 6];
            pool.read_exact_at(&mut bytes, at)
                .expect("it reaches there");
            bytes
        };
        assert_eq!((read(a), read(b)), (*b"1st\0\0\0", *b"other\0"));
    }

    #[test]
    fn a_part_changes_its_range_only_and_empties_its_holes() {
        // SAFETY: all fields are atomics, for which zeros are a value.
        let objects = unsafe { Box::<Objects>::new_zeroed().assume_init() };
        let pool = crate::memfd::with(b"").expect("a memfd");
        let page = PAGE as usize;
        let old = crate::memfd::with(&vec![b'o'; 6 * page]).expect("a memfd");
        let base = objects.fill(&pool, 7, &old).expect("it grows");
        let base = base.expect("room");
        let part = |words: [u64; 3], run: (u64, &[u8])| {
            let mut bytes = b"RLVPART1".to_vec();
            bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
            bytes.extend_from_slice(&run.0.to_le_bytes());
            bytes.extend_from_slice(&(run.1.len() as u64).to_le_bytes());
            bytes.extend_from_slice(run.1);
            bytes
        };
        let fill = |bytes: &[u8]| {
            let mut reader = PartReader::new(relive_trace::Encoded::Inline(bytes))?;
            objects.fill_part(&pool, 7, &mut reader)
        };
        let there = |len: usize| {
            let mut bytes = vec![1; len];
            pool.read_exact_at(&mut bytes, base)
                .expect("it reaches there");
            bytes
        };
        let size = 6 * PAGE;
        let new = part([PAGE, 4 * PAGE, size], (2 * PAGE + 5, b"new"));
        assert_eq!(fill(&new).expect("it grows"), Some(base));
        let mut expected = vec![b'o'; 6 * page];
        expected[page..4 * page].fill(0);
        expected[2 * page + 5..][..3].copy_from_slice(b"new");
        assert!(there(6 * page) == expected);
        // Where the file ends by now nothing is left; a map that has grown does not know where.
        let cut = part([4 * PAGE, 8 * PAGE, 5 * PAGE + 2], (5 * PAGE, b"ab"));
        fill(&cut).expect("it grows");
        expected[4 * page..].fill(0);
        expected[5 * page..][..2].copy_from_slice(b"ab");
        assert!(there(6 * page) == expected);
        let grown = part([0, PAGE, u64::MAX], (0, b"g"));
        fill(&grown).expect("it grows");
        expected[..page].fill(0);
        expected[0] = b'g';
        assert!(there(6 * page) == expected);
        assert!(
            fill(&part([0, PAGE, 2], (1, b"xy"))).is_err(),
            "behind its end"
        );
        let far = part([ROOM, ROOM + PAGE, u64::MAX], (ROOM, b"x"));
        assert_eq!(fill(&far).expect("it is none"), None);
    }
}
