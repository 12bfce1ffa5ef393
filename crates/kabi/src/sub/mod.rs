//! Sub-tables: the calls whose meaning depends on a request, a command, an operation or an option.
//! A request that is not listed is refused with the errno of a kernel that does not know it.

mod fcntl;
mod ioc;
mod ioctl;
mod ipc;
mod prctl;
mod request;
mod sockopt;

use crate::errno::{EINVAL, ENOPROTOOPT, ENOTTY};

pub use ioc::{IoctlDir, ioc_decode};
pub use request::Sub;

/// The sub-table that refines a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubTable {
    /// None: the row is complete.
    None,
    /// ioctl(2), by request (the second argument).
    Ioctl,
    /// fcntl(2), by command (the second argument).
    Fcntl,
    /// prctl(2), by operation (the first argument).
    Prctl,
    /// setsockopt(2) and getsockopt(2), by level and option (the second and third argument).
    Sockopt,
    /// shmctl(2), by command (the second argument).
    Shmctl,
    /// semctl(2), by command (the third argument).
    Semctl,
    /// msgctl(2), by command (the second argument).
    Msgctl,
}

impl SubTable {
    /// All tables.
    pub const ALL: [SubTable; 7] = [
        SubTable::Ioctl,
        SubTable::Fcntl,
        SubTable::Prctl,
        SubTable::Sockopt,
        SubTable::Shmctl,
        SubTable::Semctl,
        SubTable::Msgctl,
    ];

    /// The rows, sorted by key, each key once.
    pub const fn rows(self) -> &'static [Sub] {
        match self {
            SubTable::None => &[],
            SubTable::Ioctl => &ioctl::SORTED,
            SubTable::Fcntl => &fcntl::SORTED,
            SubTable::Prctl => &prctl::SORTED,
            SubTable::Sockopt => &sockopt::SORTED,
            SubTable::Shmctl => &ipc::SHMCTL_SORTED,
            SubTable::Semctl => &ipc::SEMCTL_SORTED,
            SubTable::Msgctl => &ipc::MSGCTL_SORTED,
        }
    }

    /// The key of the request in the arguments. All are 32-bit parameters; the key of a socket
    /// option has the level in its upper half.
    pub const fn key(self, args: &[u64; 6]) -> u64 {
        match self {
            SubTable::None => 0,
            SubTable::Ioctl | SubTable::Fcntl | SubTable::Shmctl | SubTable::Msgctl => {
                args[1] as u32 as u64
            }
            SubTable::Prctl => args[0] as u32 as u64,
            SubTable::Semctl => args[2] as u32 as u64,
            SubTable::Sockopt => (args[1] as u32 as u64) << 32 | args[2] as u32 as u64,
        }
    }

    /// The errno for a request that is not listed: that of a kernel that does not know it.
    pub const fn unlisted(self) -> i32 {
        match self {
            SubTable::Ioctl => ENOTTY,
            SubTable::Sockopt => ENOPROTOOPT,
            SubTable::None
            | SubTable::Fcntl
            | SubTable::Prctl
            | SubTable::Shmctl
            | SubTable::Semctl
            | SubTable::Msgctl => EINVAL,
        }
    }

    /// The row of a key.
    pub fn find(self, key: u64) -> Option<&'static Sub> {
        let rows = self.rows();
        let at = rows.binary_search_by_key(&key, |sub| sub.key).ok()?;
        Some(&rows[at])
    }
}

/// The row of an ioctl request.
pub fn ioctl(request: u32) -> Option<&'static Sub> {
    SubTable::Ioctl.find(u64::from(request))
}

/// The row of an fcntl command.
pub fn fcntl(command: u32) -> Option<&'static Sub> {
    SubTable::Fcntl.find(u64::from(command))
}

/// The row of a prctl operation.
pub fn prctl(operation: u32) -> Option<&'static Sub> {
    SubTable::Prctl.find(u64::from(operation))
}

/// The row of a socket option.
pub fn sockopt(level: u32, option: u32) -> Option<&'static Sub> {
    SubTable::Sockopt.find(u64::from(level) << 32 | u64::from(option))
}

/// The row of a shmctl command.
pub fn shmctl(command: u32) -> Option<&'static Sub> {
    SubTable::Shmctl.find(u64::from(command))
}

/// The row of a semctl command.
pub fn semctl(command: u32) -> Option<&'static Sub> {
    SubTable::Semctl.find(u64::from(command))
}

/// The row of a msgctl command.
pub fn msgctl(command: u32) -> Option<&'static Sub> {
    SubTable::Msgctl.find(u64::from(command))
}
