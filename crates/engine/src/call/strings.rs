//! The strings of a call, paths most of all, and the `open_how` of openat2(2). Where threads run together,
//! each is taken: copied once, so that the engine's checks and the kernel see the same bytes, even if other
//! threads change the guest's bytes meanwhile. Elsewhere they are read in guest memory. Must never read
//! guest memory for a string that has been taken.

use relive_host::GuestAddr;
use relive_host::copy::{self, BadAddress};
use relive_kabi::{Arg, OpenFlags, Opening};

use super::Call;
use super::astray::{NOWHERE, is_astray};

/// The longest path that the kernel takes, with its end; no other string is longer.
pub(crate) const MAX: usize = libc::PATH_MAX as usize;

/// The largest structure that the kernel takes.
const MAX_STRUCTURE: u64 = 4096;

/// One string, or structure.
#[derive(Default)]
struct TakenString {
    /// Its address in guest memory.
    guest: u64,
    /// A string with its end. A string that is too long has more than [`MAX`] bytes, so that the kernel
    /// refuses it.
    bytes: Vec<u8>,
    /// Not all of it can be read.
    bad: bool,
}

/// The strings of the call at hand.
#[derive(Default)]
pub struct Strings {
    taken: [TakenString; 6],
    /// The arguments whose strings have been taken, as bits.
    present: u8,
}

impl Strings {
    /// Takes none: they are read in guest memory.
    pub fn forget(&mut self) {
        self.present = 0;
    }

    /// Takes the strings of a call that is about to be made.
    pub fn take(&mut self, call: &Call) {
        self.forget();
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
            self.present |= 1 << i;
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
        self.present |= 1 << argument;
    }

    fn find(&self, call: &Call, argument: usize) -> Option<&TakenString> {
        let taken = (self.present >> argument & 1 == 1).then(|| &self.taken[argument])?;
        assert_eq!(taken.guest, call.args[argument], "a call keeps its strings");
        Some(taken)
    }

    /// Points the arguments for the kernel to the taken strings.
    pub fn point(&self, args: &mut [u64; 6]) {
        if self.present == 0 {
            return;
        }
        for (i, taken) in self.taken.iter().enumerate() {
            if self.present >> i & 1 == 1 {
                args[i] = match taken.bad {
                    true => NOWHERE + taken.guest % NOWHERE,
                    false => taken.bytes.as_ptr() as u64,
                };
            }
        }
    }

    /// Whether the string of an argument has been taken.
    pub fn has(&self, argument: usize) -> bool {
        self.present >> argument & 1 == 1
    }

    /// The string of an argument without its end, if it has one within about `max` bytes.
    ///
    /// # Errors
    /// It cannot be read, or is too long ([`is_endless`] tells which).
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

    /// Whether [`Strings::read`] fails because of the string's length.
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

    /// The first bytes of a string, if they can be read.
    pub fn head<const N: usize>(&self, call: &Call, argument: usize) -> Option<[u8; N]> {
        match self.find(call, argument) {
            Some(taken) => taken.bytes.first_chunk().copied(),
            None => copy::read_array(GuestAddr(call.args[argument])).ok(),
        }
    }
}
