//! The limit on open files, which is the guest's: the host's own few descriptors must find room
//! beside it. They lie above a small soft limit, which holds for new descriptors only, so it is
//! raised while the host makes some, up to the hard limit (a privileged process raises that too).
//! Neither the guest nor its children may ever see the raised limit.

use std::sync::OnceLock;

use rustix::process::Resource;

use crate::failure::{Failure, Result};
use crate::resource_limits;

pub use crate::resource_limits::Limit;

/// The usual limit. A descriptor far above it would make the kernel's table of descriptors, which each
/// fork copies, large.
const USUAL: u64 = 1024;
/// Numbers that are left for the host below a limit.
const OWN: u64 = 8;
/// More descriptors than the host ever opens for a moment.
const SPARE: u64 = 24;
/// Below a hard limit of this size, a host finds room beside its guest's descriptors, as a rule.
pub const ENOUGH: u64 = 64;
/// With a lower limit nothing can be recorded or replayed.
const LEAST: u64 = 16;

/// The lowest number for descriptors of the host's own: just below the limit, which guests seldom
/// reach. The limit must have been raised.
#[must_use]
pub fn floor() -> i32 {
    let soft = limit().map_or(USUAL, |(soft, _)| soft);
    (soft.clamp(LEAST, USUAL) - OWN) as i32
}

/// While it lives, the host may have more descriptors than the guest.
pub struct Room(Option<Limit>);

impl Room {
    /// For a host that runs a guest, if it `keeps` content for a trace. Threads of `relive run` run at
    /// the same time, and would take the raised limit for the guest's.
    #[must_use]
    pub fn for_host(keeps: bool) -> Self {
        match keeps {
            true => Self::make(),
            false => Self(None),
        }
    }

    /// For the start of a host, from a process with one thread.
    pub fn make() -> Self {
        Self(raise())
    }

    /// The limit that will hold again; `None`: it was not raised.
    #[must_use]
    pub fn before(&self) -> Option<Limit> {
        self.0
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        restore(self.0);
    }
}

/// Raises the limit; returns the limit before, if that was too small.
fn raise() -> Option<Limit> {
    let before @ (soft, hard) = limit()?;
    let wanted = soft.saturating_add(SPARE).max(USUAL + SPARE);
    let raised = set((wanted, hard.max(wanted))) || soft < hard && set((wanted.min(hard), hard));
    raised.then_some(before)
}

/// Undoes the change of a [`Room`]: in a new host, before its guest runs.
pub fn restore(before: Option<Limit>) {
    if let Some(before) = before {
        set(before);
    }
}

/// The limit with which a command was started, which its program must get.
/// Process-wide: the limit is the process's, and is raised before a command has any state.
static COMMANDS: OnceLock<Option<Limit>> = OnceLock::new();

/// Raises the limit for a command that starts hosts: it needs some descriptors, even if its user
/// allows the program fewer.
///
/// # Errors
/// The hard limit is too small.
pub fn for_command() -> Result<()> {
    COMMANDS.get_or_init(raise);
    match limit() {
        Some((soft, _)) if soft < LEAST => Err(Failure::setup(format!(
            "no more than {soft} files may be open at once, and Relive needs {LEAST}: raise the hard limit (ulimit -Hn)"
        ))),
        _ => Ok(()),
    }
}

/// The limit of a command's program; `None`: the present limit.
#[must_use]
pub fn of_program() -> Option<Limit> {
    COMMANDS.get().copied().flatten()
}

/// The present limit; `None`: the kernel does not tell.
#[must_use]
pub fn limit() -> Option<Limit> {
    resource_limits::get(Resource::Nofile)
}

/// Sets the limit. Descriptors above it stay open.
fn set(limit: Limit) -> bool {
    resource_limits::set(Resource::Nofile, limit)
}
