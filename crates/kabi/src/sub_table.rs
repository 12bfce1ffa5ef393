//! The names of the sub-tables, and how a call's arguments lead into one. Their rows are in `sub`.

use crate::errno::{EINVAL, ENOPROTOOPT, ENOTTY, EOPNOTSUPP};

/// The kind of quota takes so many bits of a command of quotactl(2): `SUBCMDSHIFT` of `<linux/quota.h>`.
const KIND_BITS: u32 = 8;

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
    /// keyctl(2), by operation (the first argument).
    Keyctl,
    /// quotactl(2), by command (in the first argument, above the kind of quota).
    Quotactl,
    /// quotactl_fd(2), in the same way by the second argument.
    QuotactlFd,
    /// sysfs(2), by option (the first argument).
    Sysfs,
}

impl SubTable {
    /// All tables.
    pub const ALL: [SubTable; 11] = [
        SubTable::Ioctl,
        SubTable::Fcntl,
        SubTable::Prctl,
        SubTable::Sockopt,
        SubTable::Shmctl,
        SubTable::Semctl,
        SubTable::Msgctl,
        SubTable::Keyctl,
        SubTable::Quotactl,
        SubTable::QuotactlFd,
        SubTable::Sysfs,
    ];

    /// The key of the request in the arguments. All are 32-bit parameters; the key of a socket
    /// option has the level in its upper half.
    pub const fn key(self, args: &[u64; 6]) -> u64 {
        match self {
            SubTable::None => 0,
            SubTable::Ioctl | SubTable::Fcntl | SubTable::Shmctl | SubTable::Msgctl => {
                args[1] as u32 as u64
            }
            SubTable::Prctl | SubTable::Keyctl | SubTable::Sysfs => args[0] as u32 as u64,
            SubTable::Quotactl => (args[0] as u32 >> KIND_BITS) as u64,
            SubTable::QuotactlFd => (args[1] as u32 >> KIND_BITS) as u64,
            SubTable::Semctl => args[2] as u32 as u64,
            SubTable::Sockopt => (args[1] as u32 as u64) << 32 | args[2] as u32 as u64,
        }
    }

    /// The errno for a request that is not listed: that of a kernel that does not know it.
    pub const fn unlisted(self) -> i32 {
        match self {
            SubTable::Ioctl => ENOTTY,
            SubTable::Sockopt => ENOPROTOOPT,
            SubTable::Keyctl => EOPNOTSUPP,
            SubTable::None
            | SubTable::Fcntl
            | SubTable::Prctl
            | SubTable::Shmctl
            | SubTable::Semctl
            | SubTable::Msgctl
            | SubTable::Quotactl
            | SubTable::QuotactlFd
            | SubTable::Sysfs => EINVAL,
        }
    }
}
