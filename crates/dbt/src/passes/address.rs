//! The address of an access as emitted code computes it. It must never touch guest memory or change
//! a flag.

use iced_x86::{Register, UsedMemory};
use relive_host::context::off;

use crate::classify::gpr_number;
use crate::emit::Asm;

const RDX: u8 = 2;
const RBX: u8 = 3;

/// The address of an access.
pub(super) enum Place {
    /// Known here.
    Fixed(u64),
    Computed(Address),
}

/// base + index * scale + displacement (+ FS base)
pub(super) struct Address {
    base: Option<u8>,
    index: Option<(u8, u8)>,
    displacement: i32,
    /// Offset in the context of the base of its segment.
    segment: Option<i32>,
}

impl Place {
    /// `None` if the address is not plain arithmetic.
    pub(super) fn of(memory: &UsedMemory) -> Option<Self> {
        let plain64 = |r: Register| r == Register::None || r.is_gpr64();
        let ip = matches!(memory.base(), Register::RIP | Register::EIP);
        if !(ip || plain64(memory.base())) || !plain64(memory.index()) {
            return None;
        }
        let segment = match memory.segment() {
            Register::FS => Some(off::GUEST_FS),
            Register::GS => Some(off::GUEST_GS),
            _ => None,
        };
        let displacement = memory.displacement();
        let is_fixed = (ip || memory.base() == Register::None) && memory.index() == Register::None;
        if is_fixed && segment.is_none() {
            return Some(Self::Fixed(displacement));
        }
        Some(Self::Computed(Address {
            base: gpr_number(memory.base()),
            index: gpr_number(memory.index()).map(|r| (r, memory.scale().trailing_zeros() as u8)),
            displacement: i32::try_from(displacement as i64).ok()?,
            segment,
        }))
    }

    /// The place so many bytes before, if it can be told.
    pub(super) fn before(self, bytes: u32) -> Option<Self> {
        match self {
            Self::Fixed(at) => Some(Self::Fixed(at.wrapping_sub(bytes.into()))),
            Self::Computed(address) => Some(Self::Computed(Address {
                displacement: address.displacement.checked_sub_unsigned(bytes)?,
                ..address
            })),
        }
    }
}

impl Address {
    /// Puts it into a register, which is spilled and still the guest's. Another one must be too, and is saved in
    /// `slot` of the context on the way.
    pub(super) fn emit(&self, asm: &mut Asm, to: u8, slot: i32) {
        asm.lea(to, self.base, self.index, self.displacement);
        if let Some(base) = self.segment {
            let other = if to == RDX { RBX } else { RDX };
            asm.store(slot, other);
            asm.load(other, base);
            asm.lea(to, Some(to), Some((other, 0)), 0);
            asm.load(other, slot);
        }
    }
}
