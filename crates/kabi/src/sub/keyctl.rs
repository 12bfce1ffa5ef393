//! keyctl(2): operations on keys and keyrings, by the names of `<linux/keyctl.h>`. The argument described here is the
//! third of the call, where answers go; names and texts in other arguments are only read. Must not list an operation on
//! another process: its parent's keyring may be the recorder's.

use super::request::{Sub, sort};
use crate::dsl::*;

pub(super) static SORTED: [Sub; ROWS.len()] = sort(&[(0, ROWS)]);

subs! {
    0 KEYCTL_GET_KEYRING_ID(Int);
    1 KEYCTL_JOIN_SESSION_KEYRING(Unused);
    2 KEYCTL_UPDATE(input(arg(3)));
    3 KEYCTL_REVOKE(Unused);
    4 KEYCTL_CHOWN(Int);
    5 KEYCTL_SETPERM(Int);
    6 KEYCTL_DESCRIBE(output(arg(3), Ret));
    7 KEYCTL_CLEAR(Unused);
    8 KEYCTL_LINK(Int);
    9 KEYCTL_UNLINK(Int);
    10 KEYCTL_SEARCH(Int);
    11 KEYCTL_READ(output(arg(3), Ret));
    14 KEYCTL_SET_REQKEY_KEYRING(Unused);
    15 KEYCTL_SET_TIMEOUT(Int);
    17 KEYCTL_GET_SECURITY(output(arg(3), Ret));
    21 KEYCTL_INVALIDATE(Unused);
    22 KEYCTL_GET_PERSISTENT(Int);
    30 KEYCTL_MOVE(Int);
}
