//! The numbers of the format's first bytes. One that has been given stays.

/// Low half of an event's first byte.
pub(crate) mod tag {
    pub const START: u8 = 1;
    pub const SYSCALL: u8 = 2;
    pub const SIGNAL: u8 = 3;
    pub const SWITCH: u8 = 4;
    pub const INSTR: u8 = 5;
    pub const EXEC: u8 = 6;
    pub const TURN: u8 = 7;
    pub const CHECKSUM: u8 = 8;
    pub const END: u8 = 9;
    pub const HANDOVER: u8 = 10;
    pub const MEMORY: u8 = 11;
    pub const AFTER: u8 = 12;
    pub const READINGS: u8 = 13;
    pub const ORDER: u8 = 14;
    pub const MASK: u8 = 0x0f;
}

/// The second field of an event of order: its sort.
pub(crate) mod order {
    pub const MOMENT: u8 = 0;
    pub const MOMENT_OF_EVENT: u8 = 1;
    pub const EDGE: u8 = 2;
    pub const EDGE_OF_EVENT: u8 = 3;
    pub const MARK: u8 = 4;
    pub const MARK_OF_EVENT: u8 = 5;
    pub const BEHIND: u8 = 6;
    pub const EVENT_BEHIND: u8 = 7;
}

/// High half of an event's first byte.
pub(crate) mod flag {
    pub const DIGEST: u8 = 0x10;
    /// Syscalls only.
    pub const SWITCHED: u8 = 0x20;
    /// Syscalls only.
    pub const ORDER: u8 = 0x40;
    pub const MASK: u8 = 0xf0;
}

/// A syscall's second byte: the number of arguments and which parts follow.
pub(crate) mod parts {
    pub const ARGS: u8 = 0x07;
    pub const STREAM: u8 = 0x08;
    pub const WRITES: u8 = 0x10;
    pub const EXTRA: u8 = 0x20;
    pub const REFS: u8 = 0x40;
    pub const ALL: u8 = ARGS | STREAM | WRITES | EXTRA | REFS;
}
