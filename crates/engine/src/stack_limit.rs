//! The limit on stacks, at the start of a host process.
//!
//! The kernel leaves as much room below the stack of a new program as its limit says, up to five
//! sixths of the address space, and puts all other maps below that: with `ulimit -s unlimited`
//! right where the guest's memory must be. So a host is started with an ordinary limit and gives
//! itself the true one back at once. Neither the guest nor its children may ever see the ordinary one.

use rustix::process::Resource;

use crate::resource_limits;

/// Up to this limit, the kernel's maps stay above the guest's windows.
const MOST: u64 = 1 << 40;
/// The limit with which a host starts instead: a quarter of it is more than the kernel's bound on
/// arguments and environment.
const ORDINARY: u64 = 64 << 20;

/// Lowers a limit that is too large for the start of a host, and returns the limit before.
pub fn lower() -> Option<u64> {
    let (before, _) = resource_limits::get(Resource::Stack)?;
    (before > MOST && set(ORDINARY)).then_some(before)
}

/// Undoes [`lower`]: in the new host, or where it could not be started.
pub fn restore(before: Option<u64>) {
    if let Some(soft) = before {
        set(soft);
    }
}

/// Sets the soft limit, which every process may do up to the hard one. No stack of a host depends on
/// this limit: the loader makes the guest's stack, and the host's own uses little.
fn set(soft: u64) -> bool {
    resource_limits::get(Resource::Stack)
        .is_some_and(|(_, hard)| resource_limits::set(Resource::Stack, (soft, hard)))
}
