//! From the description of a length to a number of bytes. The only code that gives [`Len`] its
//! meaning; it sees guest memory through a closure and must never assume that a pointer is good.

use crate::arg::{Arg, Len, Special};
use crate::row::Row;
use crate::structs::{CAP_DATA, FILE_HANDLE_HEADER, POLLFD};

const PAGE: u64 = 4096;
const AT_HANDLE_MNT_ID_UNIQUE: u64 = 1;
const CAPABILITY_VERSION_1: u32 = 0x1998_0330;
const CAPABILITY_VERSION_2: u32 = 0x2007_1026;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

impl Row {
    /// The number of bytes of `len` for a call of this row.
    ///
    /// `args` are the six argument registers, `ret` the result (0 before the call). `peek` copies
    /// guest memory at an address and returns whether it could. The answer may be absurdly large,
    /// as the guest's arguments may be, but never overflows; None: a pointer that the length needs
    /// is not readable.
    ///
    /// The bytes that the kernel wrote into an [`Arg::Buf`] are the smaller one of `cap`, taken
    /// before the call, and `out`, taken after it.
    pub fn bytes(
        &self,
        len: Len,
        args: &[u64; 6],
        ret: i64,
        mut peek: impl FnMut(u64, &mut [u8]) -> bool,
    ) -> Option<u64> {
        let mut peek32_at = |index: u8, offset: u64| {
            let mut word = [0; 4];
            let at = args[usize::from(index)].wrapping_add(offset);
            peek(at, &mut word).then(|| u32::from_ne_bytes(word))
        };
        let mut peek32 = |index: u8| peek32_at(index, 0);
        // A failed call has no length: its result is an error number.
        let result = u64::try_from(ret).unwrap_or(0);
        Some(match len {
            Len::Fixed(bytes) => u64::from(bytes),
            Len::Arg(index) => self.value(index, args),
            Len::ArgTimes(index, size) => self.value(index, args).saturating_mul(u64::from(size)),
            Len::ArgPlus(index, size) => self.value(index, args).saturating_add(u64::from(size)),
            Len::Deref32(index) => u64::from(peek32(index)?),
            Len::Deref64(index) => {
                let mut word = [0; 8];
                if !peek(args[usize::from(index)], &mut word) {
                    return None;
                }
                u64::from_ne_bytes(word)
            }
            Len::Ret => result,
            Len::RetTimes(size) => result.saturating_mul(u64::from(size)),
            Len::RetPlus(_) if ret < 0 => 0,
            Len::RetPlus(size) => result.saturating_add(u64::from(size)),
            Len::Special(Special::FdSet(index)) => self.value(index, args).div_ceil(64) * 8,
            Len::Special(Special::PollFds(index)) => {
                self.value(index, args).saturating_mul(u64::from(POLLFD))
            }
            Len::Special(Special::Pages(index)) => self.value(index, args).div_ceil(PAGE),
            Len::Special(Special::FileHandle(index)) => {
                u64::from(FILE_HANDLE_HEADER) + u64::from(peek32(index)?)
            }
            // <linux/fiemap.h>
            // The kernel refuses others, and has read the word by then.
            Len::Special(Special::SizeInside(index)) => u64::from(peek32(index)?).clamp(4, PAGE),
            Len::Special(Special::Extents(index)) => 32 + 56 * u64::from(peek32_at(index, 24)?),
            Len::Special(Special::ExtentsFound(index)) => {
                32 + 56 * u64::from(peek32_at(index, 20)?)
            }
            // <linux/fs.h>: a `u16`, followed by zeros that the kernel demands.
            Len::Special(Special::Targets(index)) => {
                24 + 32 * u64::from(peek32_at(index, 16)? & 0xffff)
            }
            Len::Special(Special::NodeMask(index)) => {
                self.value(index, args).saturating_sub(1).div_ceil(64) * 8
            }
            Len::Special(Special::CapData(index)) => match peek32(index)? {
                CAPABILITY_VERSION_1 => u64::from(CAP_DATA),
                CAPABILITY_VERSION_2 | CAPABILITY_VERSION_3 => 2 * u64::from(CAP_DATA),
                _ => 0,
            },
            Len::Special(Special::MountId(index)) => {
                let unique = args[usize::from(index)] & AT_HANDLE_MNT_ID_UNIQUE != 0;
                if unique { 8 } else { 4 }
            }
        })
    }

    /// The value of an argument that is a count, in the width of the kernel's parameter. A negative
    /// count is 0: the kernel refuses it.
    fn value(&self, index: u8, args: &[u64; 6]) -> u64 {
        let index = usize::from(index);
        let register = args[index];
        match self.args[index] {
            Arg::Int => u64::try_from(register as i32).unwrap_or(0),
            Arg::Uint => u64::from(register as u32),
            _ => register,
        }
    }
}
