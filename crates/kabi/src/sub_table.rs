//! The names of the sub-tables, and how a call's arguments lead into one. Their rows are in `sub`.

use crate::errno::{EINVAL, ENOPROTOOPT, ENOTTY, EOPNOTSUPP};

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
}

impl SubTable {
    /// All tables.
    pub const ALL: [SubTable; 8] = [
        SubTable::Ioctl,
        SubTable::Fcntl,
        SubTable::Prctl,
        SubTable::Sockopt,
        SubTable::Shmctl,
        SubTable::Semctl,
        SubTable::Msgctl,
        SubTable::Keyctl,
    ];

    /// The key of the request in the arguments. All are 32-bit parameters; the key of a socket
    /// option has the level in its upper half.
    pub const fn key(self, args: &[u64; 6]) -> u64 {
        match self {
            SubTable::None => 0,
            SubTable::Ioctl | SubTable::Fcntl | SubTable::Shmctl | SubTable::Msgctl => {
                args[1] as u32 as u64
            }
            SubTable::Prctl | SubTable::Keyctl => args[0] as u32 as u64,
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
            | SubTable::Msgctl => EINVAL,
        }
    }
}
