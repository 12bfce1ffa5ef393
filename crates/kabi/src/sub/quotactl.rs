//! quotactl(2): commands without the kind of quota, by the names of `<linux/quota.h>` and `<linux/dqblk_xfs.h>`. The argument
//! described here is the last of the call. Must not list a command that turns quotas of a file system on or off: that acts on
//! the whole machine.

use super::request::{Sub, sort};
use crate::dsl::*;
use crate::structs::{DQBLK, DQINFO, FS_DISK_QUOTA, FS_QUOTA_STAT, FS_QUOTA_STATV, INT, NEXTDQBLK};

pub(super) static SORTED: [Sub; ROWS.len()] = sort(&[(0, ROWS)]);

subs! {
    0x80_0001 Q_SYNC(Unused);
    0x80_0002 Q_QUOTAON(Unused) => errno(EPERM, "acts on the whole machine");
    0x80_0003 Q_QUOTAOFF(Unused) => errno(EPERM, "acts on the whole machine");
    0x80_0004 Q_GETFMT(output_of(INT));
    0x80_0005 Q_GETINFO(output_of(DQINFO));
    0x80_0006 Q_SETINFO(input_of(DQINFO));
    0x80_0007 Q_GETQUOTA(output_of(DQBLK));
    0x80_0008 Q_SETQUOTA(input_of(DQBLK));
    0x80_0009 Q_GETNEXTQUOTA(output_of(NEXTDQBLK));
    0x5801 Q_XQUOTAON(Unused) => errno(EPERM, "acts on the whole machine");
    0x5802 Q_XQUOTAOFF(Unused) => errno(EPERM, "acts on the whole machine");
    0x5803 Q_XGETQUOTA(output_of(FS_DISK_QUOTA));
    0x5804 Q_XSETQLIM(input_of(FS_DISK_QUOTA));
    0x5805 Q_XGETQSTAT(output_of(FS_QUOTA_STAT));
    0x5806 Q_XQUOTARM(Unused) => errno(EPERM, "acts on the whole machine");
    0x5807 Q_XQUOTASYNC(Unused);
    0x5808 Q_XGETQSTATV(inout_of(FS_QUOTA_STATV));
    0x5809 Q_XGETNEXTQUOTA(output_of(FS_DISK_QUOTA));
}
