//! Sub-tables: the calls whose meaning depends on a request, a command, an operation or an option.
//! A request that is not listed is refused with the errno of a kernel that does not know it.

mod fcntl;
mod ioc;
mod ioctl;
mod ipc;
mod keyctl;
mod prctl;
mod quotactl;
mod request;
mod sockopt;
mod sysfs;

use crate::sub_table::SubTable;

pub use ioc::{IoctlDir, ioc_decode};
pub use request::Sub;

impl SubTable {
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
            SubTable::Keyctl => &keyctl::SORTED,
            SubTable::Quotactl | SubTable::QuotactlFd => &quotactl::SORTED,
            SubTable::Sysfs => &sysfs::SORTED,
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
