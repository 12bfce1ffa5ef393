//! The shared maps of a copy. The guest's shared maps are of one file in memory, and a forked
//! copy of the replay would go on sharing it with the original. So a copy makes a file of its
//! own with the same content, and maps it wherever the old one is mapped. Without this a
//! snapshot would see the writes of another.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use relive_host::{layout, sys};
use rustix::fs::{SeekFrom, seek};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::broker;
use crate::failure::{Failure, Result};
use crate::modes::replay::hook_state::with;
use crate::modes::replay::mapped_copies;
use crate::sharing::objects;

/// Bytes that are copied at a time.
const STEP: usize = 1 << 16;

/// Separates the shared maps of this process from those of its parent.
pub fn separate() -> Result<()> {
    let told = |e: io::Error| Failure::setup(format!("cannot copy shared memory: {e}"));
    let old = with(|s| s.pool.try_clone()).map_err(told)?;
    let stat = sys::fstat(old.as_raw_fd()).map_err(|e| told(io::Error::from_raw_os_error(e)))?;
    let len = stat.st_size as u64;
    // Also of one without content: what the parent maps later is not this process's.
    let new = objects::pool().map_err(told)?;
    copy(&old, &new, len).map_err(told)?;
    let maps = broker::proc_file(broker::Proc::Maps);
    let maps = maps.ok_or_else(|| Failure::setup("a replay cannot read its own /proc/PID/maps"))?;
    let maps = mapped_copies::read_all(&maps).map_err(told)?;
    let text = String::from_utf8_lossy(&maps);
    for map in text.lines().filter_map(Mapping::parse) {
        if map.inode == stat.st_ino {
            map.replace(&new).map_err(told)?;
        }
    }
    with(|s| s.pool = new);
    Ok(())
}

/// Copies the data of a file with holes.
fn copy(from: &File, to: &File, len: u64) -> io::Result<()> {
    to.set_len(len)?;
    let mut at = 0u64;
    let mut buf = vec![0; STEP];
    // Nothing else reads by the offset of this descriptor.
    while let Ok(start) = seek(from, SeekFrom::Data(at)) {
        let end = seek(from, SeekFrom::Hole(start))?;
        at = start;
        while at < end {
            let n = ((end - at) as usize).min(STEP);
            let n = from.read_at(&mut buf[..n], at)?;
            if n == 0 {
                return Ok(());
            }
            to.write_all_at(&buf[..n], at)?;
            at += n as u64;
        }
    }
    Ok(())
}

/// One line of `/proc/self/maps` that is a shared map in the guest's window (proc(5)).
struct Mapping {
    start: u64,
    end: u64,
    prot: i32,
    offset: u64,
    inode: u64,
}

impl Mapping {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let flags = fields.next()?.as_bytes();
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let offset = hex(fields.next()?)?;
        let inode = fields.nth(1)?.parse().ok()?;
        let start = hex(start)?;
        let prot = |at: usize, letter: u8, bit: i32| match flags.get(at) {
            Some(f) if *f == letter => bit,
            _ => 0,
        };
        let shared = flags.get(3) == Some(&b's');
        (shared && layout::guest_may_map(start)).then_some(Self {
            start,
            end: hex(end)?,
            prot: prot(0, b'r', libc::PROT_READ) | prot(1, b'w', libc::PROT_WRITE),
            offset,
            inode,
        })
    }

    /// Maps the new file at the same place.
    fn replace(&self, file: &File) -> io::Result<()> {
        // SAFETY: replaces a map of guest memory, to which the host holds no reference, by one
        // of the same content.
        let got = unsafe {
            mmap(
                self.start as *mut _,
                (self.end - self.start) as usize,
                ProtFlags::from_bits_retain(self.prot as u32),
                MapFlags::SHARED | MapFlags::FIXED,
                file,
                self.offset,
            )
        };
        Ok(got.map(drop)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_maps_of_the_guest_count() {
        let line = "100000000000-100000002000 rw-s 00003000 00:01 77  /memfd:x (deleted)";
        let map = Mapping::parse(line).unwrap();
        assert_eq!(
            (map.start, map.end, map.offset, map.inode),
            (1 << 44, (1 << 44) + 0x2000, 0x3000, 77)
        );
        assert_eq!(map.prot, libc::PROT_READ | libc::PROT_WRITE);
        assert!(Mapping::parse(&line.replace("rw-s", "rw-p")).is_none());
        assert!(Mapping::parse(&line.replacen("100000000000", "700000000000", 1)).is_none());
        assert!(Mapping::parse("nonsense").is_none());
    }
}
