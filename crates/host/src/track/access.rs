//! An access as translated code describes it to the host. It knows neither the filter nor a context.

/// Classes of sizes: 1, 2, 4, … 64 bytes, and all others.
pub(crate) const TRACK_SIZES: usize = 8;
/// The class of a size.
#[must_use]
pub(crate) const fn size_class(size: u64) -> usize {
    match size {
        1 | 2 | 4 | 8 | 16 | 32 | 64 => size.trailing_zeros() as usize,
        _ => TRACK_SIZES - 1,
    }
}

/// An access as translated code describes it: an instruction, and its operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tracked {
    /// The instruction.
    pub pc: u64,
    /// Bytes of the access; of one item of a repeated one.
    pub size: u64,
    /// It writes (and may read too).
    pub writes: bool,
    /// It is an atomic one.
    pub atomic: bool,
    /// It is repeated as often as the guest's rcx says.
    pub repeated: bool,
    /// Only some elements are accessed: the number of the mask register that says which, and log2 of
    /// their bytes.
    pub masked: Option<(u8, u8)>,
}

/// Where the size begins in [`Tracked::word`].
pub(crate) const SIZE_SHIFT: u32 = 48;
/// Where the flags begin.
pub(crate) const FLAGS_SHIFT: u32 = 61;
/// The flag of atomic accesses.
pub(crate) const ATOMIC_BIT: u32 = FLAGS_SHIFT + 1;

/// Kinds of accesses that the routine has an entry for each.
pub const KINDS: usize = 4;

/// The kind of an access: plain reads, plain writes, atomic ones, all others.
pub(crate) fn kind(word: u64) -> usize {
    let masked = word >> 58 & 7 != 0;
    match word >> FLAGS_SHIFT {
        0 if !masked => 0,
        1 if !masked => 1,
        3 => 2,
        _ => 3,
    }
}

impl Tracked {
    pub(crate) const PC: u64 = (1 << 48) - 1;
    const SIZE: u64 = (1 << 10) - 1;
    /// Of the sizes of masked accesses, which are multiples of 16, the place of log2 of the element.
    const ELEMENT: u64 = 3;

    /// As one word: pc, size, mask register (3 bits), three flags.
    #[must_use]
    pub fn word(self) -> u64 {
        let flags =
            u64::from(self.writes) | u64::from(self.atomic) << 1 | u64::from(self.repeated) << 2;
        let (mask, element) = self.masked.unwrap_or((0, 0));
        let size = self.size.min(Self::SIZE) | u64::from(element);
        self.pc & Self::PC | size << SIZE_SHIFT | u64::from(mask) << 58 | flags << FLAGS_SHIFT
    }

    /// The kind of the access: the routine has an entry for each.
    #[must_use]
    pub fn kind(self) -> usize {
        kind(self.word())
    }

    /// Of such a word.
    #[must_use]
    pub fn of(word: u64) -> Self {
        let (size, mask) = (word >> SIZE_SHIFT & Self::SIZE, (word >> 58 & 7) as u8);
        let masked = (mask != 0).then_some((mask, (size & Self::ELEMENT) as u8));
        Self {
            pc: word & Self::PC,
            size: match masked {
                Some(_) => size & !Self::ELEMENT,
                None => size,
            },
            writes: word >> FLAGS_SHIFT & 1 == 1,
            atomic: word >> ATOMIC_BIT & 1 == 1,
            repeated: word >> 63 == 1,
            masked,
        }
    }
}

/// The bytes of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The first one.
    pub addr: u64,
    /// Their number; of a repeated access that may be 0.
    pub size: u64,
}

impl Span {
    /// Of an access whose first item is at `addr`, with the guest's rcx and flags. With the direction flag a repeated
    /// access goes downwards from there (Intel SDM vol. 2B, REP).
    pub(crate) fn of(tracked: Tracked, addr: u64, rcx: u64, flags: u64) -> Self {
        const DIRECTION: u64 = 1 << 10;
        let one = Self {
            addr,
            size: tracked.size,
        };
        if !tracked.repeated {
            return one;
        }
        let size = one.size.saturating_mul(rcx);
        let goes_down = flags & DIRECTION != 0 && rcx > 0;
        let below = if goes_down { size - one.size } else { 0 };
        Self {
            addr: addr.wrapping_sub(below),
            size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_access_goes_either_way() {
        let tracked = |repeated| Tracked {
            pc: 0,
            size: 8,
            writes: true,
            atomic: false,
            repeated,
            masked: None,
        };
        let of = |repeated, rcx, flags| {
            let span = Span::of(tracked(repeated), 0x1000, rcx, flags);
            (span.addr, span.size)
        };
        assert_eq!(of(false, 5, 1 << 10), (0x1000, 8));
        assert_eq!(of(true, 5, 0), (0x1000, 40));
        assert_eq!(of(true, 5, 1 << 10 | 1), (0x1000 - 32, 40));
        assert_eq!(of(true, 0, 1 << 10), (0x1000, 0));
    }

    #[test]
    fn a_description_is_one_word() {
        for (writes, masked, size) in [
            (false, None, 512),
            (true, Some((7, 3)), 64),
            (true, Some((1, 0)), 32),
        ] {
            let tracked = Tracked {
                pc: 0x1234_5678_9abc,
                size,
                writes,
                atomic: !writes,
                repeated: writes,
                masked,
            };
            assert_eq!(Tracked::of(tracked.word()), tracked);
        }
    }
}
