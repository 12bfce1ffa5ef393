//! A ring as it lies in the shared memory.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// How many tapes can be written at the same time.
pub const RINGS: usize = 4096;
/// Bytes in one ring.
pub const RING_BYTES: u64 = 128 * 1024;

/// State of a ring.
pub mod state {
    /// Belongs to no thread.
    pub const FREE: u32 = 0;
    /// A thread writes to it.
    pub const ACTIVE: u32 = 1;
    /// Its thread has written its last event.
    pub const CLOSED: u32 = 2;
    /// Being set up.
    pub const CLAIMED: u32 = 3;
}

/// One single-producer, single-consumer byte ring; its data lies behind the header.
#[repr(C, align(64))]
pub struct Ring {
    /// See [`state`].
    pub state: AtomicU32,
    /// Kernel pid of the writer, to notice its death.
    pub pid: AtomicU32,
    /// The process and thread whose tape it is.
    pub(super) process: AtomicU32,
    pub(super) thread: AtomicU32,
    /// Bytes ever written.
    pub head: AtomicU64,
    /// Bytes ever read.
    pub tail: AtomicU64,
    /// Moves when the reader has made room.
    pub room: AtomicU32,
    /// Events ever written.
    pub events: AtomicU64,
    /// Those of them that are no events of the thread, but notes on the way to one.
    pub notes: AtomicU64,
    /// Ticks of the thread at the last of them.
    pub ticks: AtomicU64,
}
