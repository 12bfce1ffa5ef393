//! The strings of a call, paths most of all, and the structure of openat2(2) that says how, where threads
//! run together: each is read once, before anything looks at it, and the checks of ours and the kernel have the same bytes, whatever others make
//! of the guest's meanwhile. Elsewhere they are read where they are. Must never look at guest memory for
//! a string that has been taken.

use relive_host::GuestAddr;
use relive_host::copy::{self, BadAddress};
use relive_kabi::{Arg, OpenFlags, Opening};

use super::buffers::{NOWHERE, is_astray};
use crate::call::Call;
use crate::task::Task;

/// With its end, the longest path that the kernel takes, and more than any other string.
const MAX: usize = libc::PATH_MAX as usize;

/// The largest structure that the kernel takes.
const MAX_STRUCTURE: u64 = 4096;

/// One string, or structure.
#[derive(Default)]
struct Taken {
    /// Where it is in guest memory.
    guest: u64,
    /// A string with its end. One that is too long has more than [`MAX`], by which the kernel says so.
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
        if let Some(OpenFlags::Behind(how)) = call.opening().map(|o| o.flags) {
            let len = call.arg(how + 1).min(MAX_STRUCTURE);
            self.take_structure(call, how.into(), len as usize);
        }
    }

    fn take_structure(&mut self, call: &Call, argument: usize, len: usize) {
        let guest = call.args[argument];
        if guest == 0 || is_astray(guest) {
            return;
        }
        let taken = &mut self.taken[argument];
        taken.guest = guest;
        taken.bytes.clear();
        taken.bytes.resize(len, 0);
        taken.bad = copy::read(GuestAddr(guest), &mut taken.bytes).is_err();
        self.which |= 1 << argument;
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

    /// A word of the structure that an argument points to.
    pub fn word(&self, call: &Call, argument: u8, offset: usize) -> Option<u64> {
        match self.find(call, argument.into()) {
            Some(taken) if taken.bad => None,
            Some(taken) => {
                let bytes = taken.bytes.get(offset..)?.first_chunk();
                bytes.map(|bytes| u64::from_le_bytes(*bytes))
            }
            None => copy::read_u64(GuestAddr(call.arg(argument).wrapping_add(offset as u64))).ok(),
        }
    }

    /// The flags of open(2) with which a call opens a file; none if they cannot be read.
    pub fn open_flags(&self, call: &Call, opening: Opening) -> u64 {
        match opening.flags {
            OpenFlags::In(argument) => call.arg(argument),
            OpenFlags::Behind(argument) => self.word(call, argument, 0).unwrap_or(0),
            OpenFlags::Create => (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::own;
    use crate::testing::Guest;

    const AT: u64 = 0x1000_4000_0000;
    const PAGE: u64 = 4096;

    fn guest(text: &[u8]) -> Guest {
        let mut guest = Guest::new();
        guest.map(AT, 3 * PAGE);
        guest.task.write(AT, text).expect("it is mapped");
        guest
    }

    /// What there is to know of the path of access(2), which is taken; and the call's result.
    fn taken(guest: &mut Guest, at: u64) -> (Result<Vec<u8>, bool>, i64) {
        let call = guest.call(libc::SYS_access, &[at, 0]);
        guest.task.strings.take(&call);
        let mut text = Vec::new();
        let strings = &guest.task.strings;
        let read = strings.read(&call, 0, MAX, &mut text);
        let text = read.map_or_else(|_| Err(strings.is_endless(&call, 0)), |()| Ok(text));
        let result = guest.live(libc::SYS_access, &[at, 0]);
        (text, result.expect("it is let through"))
    }

    #[test]
    fn what_changes_behind_the_first_look_changes_nothing() {
        let mut guest = guest(b"/proc/self/fd\0");
        let args = [AT, 0];
        let call = guest.call(libc::SYS_access, &args);
        guest.task.strings.take(&call);
        guest
            .task
            .write(AT, b"/there is none")
            .expect("it is mapped");
        let mut text = Vec::new();
        let read = guest.task.strings.read(&call, 0, MAX, &mut text);
        assert_eq!((read.is_ok(), &text[..]), (true, &b"/proc/self/fd"[..]));
        assert_eq!(guest.task.strings.head(&call, 0), Some(*b"/proc"));
        assert_eq!(guest.live(libc::SYS_access, &args).ok(), Some(0));
        guest.task.strings.which = 0;
        let missing = -i64::from(libc::ENOENT);
        assert_eq!(guest.live(libc::SYS_access, &args).ok(), Some(missing));
        assert_eq!(own::refuses(&guest.task, &call), None);
    }

    #[test]
    fn the_kernel_says_of_long_paths_what_it_says_of_the_guests() {
        let mut guest = guest(&[b'/'; 2 * PAGE as usize]);
        let long = (Err(true), -i64::from(libc::ENAMETOOLONG));
        assert_eq!(taken(&mut guest, AT), long);
        let end = AT + 2 * PAGE;
        assert_eq!(taken(&mut guest, end - PAGE), long);
        let fits = vec![b'/'; MAX - 1];
        assert_eq!(taken(&mut guest, end - PAGE + 1), (Ok(fits), 0));
        assert_eq!(
            taken(&mut guest, end),
            (Ok(Vec::new()), -i64::from(libc::ENOENT))
        );
    }

    #[test]
    fn how_openat2_opens_is_read_once() {
        let mut guest = guest(b"/\0");
        let how = [libc::O_PATH as u64, 0, libc::RESOLVE_IN_ROOT].map(u64::to_le_bytes);
        let at = AT + PAGE;
        guest
            .task
            .write(at, how.as_flattened())
            .expect("it is mapped");
        let call = guest.call(libc::SYS_openat2, &[u64::MAX - 99, AT, at, 24]);
        guest.task.strings.take(&call);
        guest.task.write(at, &[0; 24]).expect("it is mapped");
        let strings = &guest.task.strings;
        let opening = call.opening().expect("it opens a file");
        assert_eq!(strings.open_flags(&call, opening), libc::O_PATH as u64);
        assert_eq!(strings.word(&call, 2, 16), Some(libc::RESOLVE_IN_ROOT));
        assert_eq!(strings.word(&call, 2, 24), None);
        let mut args = call.args;
        strings.point(&mut args);
        assert_ne!((args[1], args[2]), (AT, at));
    }
}
