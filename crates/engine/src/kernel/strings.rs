//! The strings of a call, paths most of all, where threads run together: each is read once, before
//! anything looks at it, and the checks of ours and the kernel have the same bytes, whatever others make
//! of the guest's meanwhile. Elsewhere they are read where they are. Must never look at guest memory for
//! a string that has been taken.

use relive_host::GuestAddr;
use relive_host::copy::{self, BadAddress};
use relive_kabi::Arg;

use super::buffers::{NOWHERE, is_astray};
use crate::call::Call;
use crate::task::Task;

/// With its end, the longest path that the kernel takes, and more than any other string.
const MAX: usize = libc::PATH_MAX as usize;

/// One string.
#[derive(Default)]
struct Taken {
    /// Where it is in guest memory.
    guest: u64,
    /// With its end. One that is too long has more than [`MAX`], by which the kernel says so.
    bytes: Vec<u8>,
    /// Not all of it can be read.
    bad: bool,
}

/// Those of the call at hand.
#[derive(Default)]
pub struct Strings {
    taken: [Taken; 6],
    /// The arguments whose strings have been taken, as bits.
    which: u8,
}

impl Strings {
    /// Takes those of a call that is about to be made, if other threads could change them.
    pub fn begin(task: &mut Task, call: &Call) {
        task.strings.which = 0;
        if may_change(task) {
            task.strings.take(call);
        }
    }

    fn take(&mut self, call: &Call) {
        let args = call.row.map_or(&[][..], |row| row.args);
        for (i, _) in args.iter().enumerate().filter(|(_, arg)| **arg == Arg::Str) {
            let guest = call.args[i];
            if guest == 0 || is_astray(guest) {
                continue;
            }
            let taken = &mut self.taken[i];
            taken.guest = guest;
            let read = copy::read_cstr(GuestAddr(guest), MAX, &mut taken.bytes);
            taken.bad = read.is_err() && taken.bytes.len() < MAX;
            taken.bytes.truncate(MAX + 1);
            taken.bytes.push(0);
            self.which |= 1 << i;
        }
    }

    fn find(&self, call: &Call, argument: usize) -> Option<&Taken> {
        let taken = (self.which >> argument & 1 == 1).then(|| &self.taken[argument])?;
        debug_assert_eq!(taken.guest, call.args[argument], "a call keeps its strings");
        Some(taken)
    }

    /// Has the kernel read what was taken.
    pub fn point(&self, args: &mut [u64; 6]) {
        if self.which == 0 {
            return;
        }
        for (i, taken) in self.taken.iter().enumerate() {
            if self.which >> i & 1 == 1 {
                args[i] = match taken.bad {
                    true => NOWHERE + taken.guest % NOWHERE,
                    false => taken.bytes.as_ptr() as u64,
                };
            }
        }
    }

    /// Whether the string of an argument has been taken.
    pub fn has(&self, argument: usize) -> bool {
        self.which >> argument & 1 == 1
    }

    /// The string of an argument without its end, if it has one within about `max` bytes.
    ///
    /// # Errors
    /// It cannot be read, or is too long ([`is_endless`] knows).
    ///
    /// [`is_endless`]: Strings::is_endless
    pub fn read(
        &self,
        call: &Call,
        argument: usize,
        max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), BadAddress> {
        let at = GuestAddr(call.args[argument]);
        let Some(taken) = self.find(call, argument) else {
            return copy::read_cstr(at, max, out);
        };
        out.clear();
        let (_, text) = taken.bytes.split_last().expect("it has an end");
        if taken.bad || text.len() >= MAX {
            return Err(BadAddress(at));
        }
        out.extend_from_slice(text);
        Ok(())
    }

    /// Of one that is not read: whether that is because of its length.
    pub fn is_endless(&self, call: &Call, argument: usize) -> bool {
        match self.find(call, argument) {
            Some(taken) => !taken.bad,
            None => copy::read(GuestAddr(call.args[argument]), &mut [0; MAX]).is_ok(),
        }
    }

    /// Its first bytes, if it can be read so far.
    pub fn head<const N: usize>(&self, call: &Call, argument: usize) -> Option<[u8; N]> {
        match self.find(call, argument) {
            Some(taken) => taken.bytes.first_chunk().copied(),
            None => copy::read_array(GuestAddr(call.args[argument])).ok(),
        }
    }
}

/// Whether others may change strings while a call is made with them.
pub fn may_change(task: &Task) -> bool {
    task.runs_together() && task.mode().others_see(task)
}
