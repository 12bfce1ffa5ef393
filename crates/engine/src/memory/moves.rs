//! mremap(2): memory that moves, grows, shrinks or gets a second address.

use relive_host::sys;

use super::Memory;
use super::host_map::{put_back, too_many_maps};
use crate::failure::CallResult;
use crate::space::Region;

impl Memory {
    /// Moves a range's pages to another range, or resizes the range where it is. `new` must be free (or
    /// the resized old range).
    ///
    /// # Errors
    /// The errno of mremap(2), or the translations cannot follow.
    pub fn remap(&mut self, old: (u64, u64), new: (u64, u64)) -> CallResult<()> {
        let region = self.space.at(old.0).cloned().ok_or(libc::EFAULT)?;
        if !self.has_room(new.0, new.1, region.prot) {
            return Err(libc::ENOMEM.into());
        }
        self.forget_code(old.0, old.1)?;
        self.gets(new.0, new.1)?;
        let (old_len, new_len) = (old.1 - old.0, new.1 - new.0);
        if new.0 == old.0 && new_len > old_len {
            // The reserve lies behind the old range; only a fresh mapping can take its place.
            // SAFETY: the caller made sure that the range behind is free guest window.
            let got = unsafe {
                sys::syscall(
                    libc::SYS_munmap as u64,
                    [old.1, new_len - old_len, 0, 0, 0, 0],
                )
            };
            if got < 0 {
                return Err(too_many_maps("unmap", old.1, -got as i32).into());
            }
        }
        let flags = if new.0 == old.0 {
            0
        } else {
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED
        };
        // SAFETY: both ranges are guest memory; a fixed target replaces reserve only.
        let got = unsafe {
            sys::syscall(
                libc::SYS_mremap as u64,
                [old.0, old_len, new_len, flags as u64, new.0, 0],
            )
        };
        if got < 0 {
            // The kernel may have unmapped: it does so first where the target is fixed.
            if new.0 != old.0 {
                put_back(new.0, new_len)?;
            } else if new_len > old_len {
                put_back(old.1, new_len - old_len)?;
            }
            return Err((got as i64).into());
        }
        if new.0 != old.0 {
            put_back(old.0, old_len)?;
            self.space.remove(old.0, old.1);
        } else if new_len < old_len {
            put_back(new.1, old_len - new_len)?;
            self.space.remove(new.1, old.1);
        }
        let offset = region.offset + (old.0 - region.start);
        self.space.insert(Region {
            start: new.0,
            end: new.1,
            offset,
            ..region
        });
        Ok(self.appears(new.0, new.1)?)
    }

    /// Maps the pages from `old` at `new` and leaves the old range mapped: the same memory at a second
    /// address if `old_len` is 0 (shared maps only), and otherwise without pages (mremap(2),
    /// `MREMAP_DONTUNMAP`).
    ///
    /// # Errors
    /// The errno of mremap(2), or the translations cannot follow.
    pub fn remap_beside(&mut self, old: u64, old_len: u64, new: (u64, u64)) -> CallResult<()> {
        let region = self.space.at(old).cloned().ok_or(libc::EFAULT)?;
        let keeps = if old_len == 0 {
            0
        } else {
            libc::MREMAP_DONTUNMAP
        };
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | keeps;
        if !self.has_room(new.0, new.1, region.prot) {
            return Err(libc::ENOMEM.into());
        }
        self.forget_code(old, old + old_len)?;
        self.forget_code(new.0, new.1)?;
        self.gets(new.0, new.1)?;
        // SAFETY: both ranges are guest memory; the target is free.
        let got = unsafe {
            sys::syscall(
                libc::SYS_mremap as u64,
                [old, old_len, new.1 - new.0, flags as u64, new.0, 0],
            )
        };
        if got < 0 {
            put_back(new.0, new.1 - new.0)?;
            return Err((got as i64).into());
        }
        let offset = region.offset + (old - region.start);
        self.space.insert(Region {
            start: new.0,
            end: new.1,
            offset,
            ..region
        });
        if keeps != 0 {
            self.space.change(old, old + old_len, |t| t.locked = false);
        }
        // With an old length of 0 a guarded page's protection comes along.
        self.settle(new.0, new.1)?;
        Ok(self.appears(new.0, new.1)?)
    }
}
