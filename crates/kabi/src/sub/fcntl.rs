//! fcntl(2): commands on a descriptor. See also `<linux/fcntl.h>`.

use super::request::{Sub, sort};
use crate::dsl::*;
use crate::structs::{F_OWNER_EX, FLOCK};

pub(super) static SORTED: [Sub; ROWS.len()] = sort(&[(0, ROWS)]);

subs! {
    0 F_DUPFD(Int) => fds(Copies(0));
    1 F_GETFD(Unused);
    2 F_SETFD(Int);
    3 F_GETFL(Unused);
    4 F_SETFL(Int);
    5 F_GETLK(inout_of(FLOCK));
    6 F_SETLK(input_of(FLOCK));
    7 F_SETLKW(input_of(FLOCK)) => blocks(Handler);
    8 F_SETOWN(Int);
    9 F_GETOWN(Unused);
    10 F_SETSIG(Int);
    11 F_GETSIG(Unused);
    15 F_SETOWN_EX(input_of(F_OWNER_EX));
    16 F_GETOWN_EX(output_of(F_OWNER_EX));
    17 F_GETOWNER_UIDS(output_of(8));
    36 F_OFD_GETLK(inout_of(FLOCK));
    37 F_OFD_SETLK(input_of(FLOCK));
    38 F_OFD_SETLKW(input_of(FLOCK)) => blocks(Handler);
    1024 F_SETLEASE(Int);
    1025 F_GETLEASE(Unused);
    1026 F_NOTIFY(Int);
    1027 F_DUPFD_QUERY(Fd);
    1028 F_CREATED_QUERY(Unused);
    1030 F_DUPFD_CLOEXEC(Int) => fds(Copies(0));
    1031 F_SETPIPE_SZ(Int);
    1032 F_GETPIPE_SZ(Unused);
    1033 F_ADD_SEALS(Int);
    1034 F_GET_SEALS(Unused);
    1035 F_GET_RW_HINT(output_of(8));
    1036 F_SET_RW_HINT(input_of(8));
    1037 F_GET_FILE_RW_HINT(output_of(8));
    1038 F_SET_FILE_RW_HINT(input_of(8));
}
