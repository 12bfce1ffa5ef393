//! sysfs(2): which file systems the kernel knows, by their numbers and names. The argument described here is the last of the call;
//! the name that option 1 reads is in another one.

use super::request::{Sub, sort};
use crate::dsl::*;
use crate::structs::FILE_SYSTEM_NAME;

pub(super) static SORTED: [Sub; ROWS.len()] = sort(&[(0, ROWS)]);

subs! {
    1 FS_INDEX(Unused);
    // The kernel writes the name with its end, and no more.
    2 FS_NAME(inout_of(FILE_SYSTEM_NAME));
    3 FS_COUNT(Unused);
}
