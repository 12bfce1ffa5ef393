//! The start data of a guided replay, in its environment: its timeline sets the variable, and the
//! replay reads it. Must never touch the socket that it names.

use std::sync::atomic::{AtomicBool, Ordering};

/// Names the socket of the orders, and the processes to follow: `FD:INDEX,INDEX…`; `@WORK` behind them:
/// it begins with the session image of the last one of that work.
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
    /// The work of the session image that it begins with.
    pub image: Option<u64>,
}

impl Guide {
    /// The process to replay.
    #[must_use]
    pub fn goal(&self) -> u32 {
        self.follow.last().copied().unwrap_or(0)
    }

    /// As the value of the variable.
    #[must_use]
    pub fn value(&self) -> String {
        let list: Vec<String> = self.follow.iter().map(u32::to_string).collect();
        let image = self.image.map_or(String::new(), |work| format!("@{work}"));
        format!("{}:{}{image}", self.fd, list.join(","))
    }
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
    let (value, image) = match value.split_once('@') {
        Some((value, work)) => (value, Some(work.parse().ok()?)),
        None => (&*value, None),
    };
    let (fd, follow) = value.split_once(':')?;
    let follow: std::result::Result<Vec<u32>, _> = follow.split(',').map(str::parse).collect();
    Some(Guide {
        fd: fd.parse().ok()?,
        follow: follow.ok()?,
        image,
    })
}
