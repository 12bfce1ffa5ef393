//! Marks: the host instructions of a fragment that can fault, each with its guest instruction and
//! the changes to undo. A fault anywhere else is an error of the translator.

use bytemuck::{Pod, Zeroable};

use crate::emit::RSP;

/// The changes that a partly executed translation has already made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Undo {
    /// Nothing.
    Exact,
    /// Guest rcx is spilled.
    Rcx,
    /// This register is spilled.
    Scratch(u8),
    /// An ordered instruction has been counted. Two registers may be spilled, that of the object and
    /// that of [`Undo::Scratch`].
    Ordered {
        object: Option<u8>,
        scratch: Option<u8>,
    },
    /// The table slot of an indirect jump or call is not there: rcx is the target.
    JumpMiss,
    /// The table slot of a return is not there: rcx is the target.
    ReturnMiss,
    /// A paired call finds no shadow; the guest's call is complete.
    Called,
    /// The same of an indirect one: rcx is the target.
    CalledByTable,
    /// A paired return finds no shadow.
    Return,
    /// Where a paired call returns to; faults if the fragment is dead.
    Landing,
    /// A return to another address has come to the landing at this guest address: rcx is the
    /// difference.
    Misled,
}

/// A place in a fragment that can fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    /// Offset from the fragment's plain entry.
    pub(crate) cache: u16,
    /// Offset of the guest instruction from the fragment's guest address.
    pub(crate) guest: u16,
    /// Ticks of later rounds that have been counted already, at most [`MOST_AHEAD`].
    pub(crate) ahead: u8,
    pub(crate) undo: Undo,
}

/// Most ticks that may be counted ahead.
pub(crate) const MOST_AHEAD: u8 = 15;

/// A mark as it is kept, in memory and in files.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct MarkRecord {
    pub(crate) cache: u16,
    guest: u16,
    /// The number of the change, and [`Mark::ahead`] in the upper half.
    undo: u8,
    reg: u8,
}

impl MarkRecord {
    pub(crate) fn of(mark: &Mark) -> Self {
        let (undo, reg) = match mark.undo {
            Undo::Exact => (0, 0),
            Undo::Rcx => (1, 0),
            Undo::JumpMiss => (2, 0),
            Undo::ReturnMiss => (3, 0),
            Undo::Scratch(reg) => (4, reg),
            Undo::Called => (5, 0),
            Undo::CalledByTable => (6, 0),
            Undo::Return => (7, 0),
            Undo::Landing => (8, 0),
            Undo::Misled => (9, 0),
            Undo::Ordered { object, scratch } => (10, pair(object) | pair(scratch) << 4),
        };
        debug_assert!(mark.ahead <= MOST_AHEAD);
        Self {
            cache: mark.cache,
            guest: mark.guest,
            undo: undo | mark.ahead << 4,
            reg,
        }
    }

    /// `None` if the record is not valid: a file may contain anything.
    pub(crate) fn mark(&self) -> Option<Mark> {
        Some(Mark {
            cache: self.cache,
            guest: self.guest,
            ahead: self.undo >> 4,
            undo: match self.undo & 0xf {
                0 => Undo::Exact,
                1 => Undo::Rcx,
                2 => Undo::JumpMiss,
                3 => Undo::ReturnMiss,
                4 if self.reg < 16 => Undo::Scratch(self.reg),
                5 => Undo::Called,
                6 => Undo::CalledByTable,
                7 => Undo::Return,
                8 => Undo::Landing,
                9 => Undo::Misled,
                10 => Undo::Ordered {
                    object: unpaired(self.reg & 0xf),
                    scratch: unpaired(self.reg >> 4),
                },
                _ => return None,
            },
        })
    }
}

/// A register that may be spilled, in half a byte: rsp never is.
fn pair(reg: Option<u8>) -> u8 {
    reg.unwrap_or(RSP)
}

fn unpaired(half: u8) -> Option<u8> {
    (half != RSP).then_some(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_which_registers_are_spilled() {
        let registers = [None, Some(0), Some(1), Some(11), Some(15)];
        for object in registers {
            for scratch in registers {
                let mark = Mark {
                    cache: 3,
                    guest: 4,
                    ahead: MOST_AHEAD,
                    undo: Undo::Ordered { object, scratch },
                };
                assert_eq!(MarkRecord::of(&mark).mark(), Some(mark));
            }
        }
    }
}
