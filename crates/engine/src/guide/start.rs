//! The start data of a guided replay, in its environment: its timeline sets the variable, and the
//! replay reads it. Must never touch the socket that it names.

use std::sync::atomic::{AtomicBool, Ordering};

/// Names the socket of the orders, and the processes to follow: `FD:INDEX,INDEX…`.
pub const VARIABLE: &str = "RELIVE_GUIDE";

/// Whether this process is a guided replay. Process-wide: the report of a panic asks.
static GUIDED: AtomicBool = AtomicBool::new(false);

/// Whether this process is a guided replay.
#[must_use]
pub fn is_guided() -> bool {
    GUIDED.load(Ordering::Relaxed)
}

/// The start data of a guided replay.
pub struct Guide {
    /// The socket.
    pub fd: i32,
    /// Indexes of the process to replay and of those that it comes from.
    pub follow: Vec<u32>,
}

/// The start data in the environment, if this is to be a guided replay.
#[must_use]
pub fn requested() -> Option<Guide> {
    let guide = guide()?;
    GUIDED.store(true, Ordering::Relaxed);
    Some(guide)
}

/// The socket of the orders, where there are any.
pub fn socket() -> Option<i32> {
    guide().map(|g| g.fd)
}

fn guide() -> Option<Guide> {
    let value = std::env::var(VARIABLE).ok()?;
    let (fd, follow) = value.split_once(':')?;
    let follow: std::result::Result<Vec<u32>, _> = follow.split(',').map(str::parse).collect();
    Some(Guide {
        fd: fd.parse().ok()?,
        follow: follow.ok()?,
    })
}
