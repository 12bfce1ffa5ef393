//! Lines, the bits of an entry, and the word by which translated code describes an access. Plain numbers.

/// Addresses with the same bits from here on lie in the same line.
pub const LINE_SHIFT: u32 = 6;
/// Bytes of a line.
pub const LINE: u64 = 1 << LINE_SHIFT;
/// Entries of a table: those of the low half of an address. Most of its memory is never touched.
pub const LINES: u64 = 1 << (32 - LINE_SHIFT);

/// In [`crate::Context::permit_what`], beside the number of bytes: they are to be written.
pub const WRITES: u64 = 1 << 8;
/// The same: they are all that the instruction accesses.
pub const WHOLE: u64 = 1 << 9;
/// The number of bytes in it.
pub const SIZE: u64 = WRITES - 1;

/// The line may be read.
pub const READ: u8 = 1;
/// The line may be written, and read.
pub const WRITE: u8 = 2;
/// [`READ`] holds for this line and the next.
pub const READ_ON: u8 = 4;
/// [`WRITE`] holds for this line and the next.
pub const WRITE_ON: u8 = 8;
