//! What the kernel tells of a descriptor of the guest's. Must only ask.

/// What fstat(2) says of a descriptor; `None` for a bad one.
pub fn status(fd: i32) -> Option<libc::stat> {
    // SAFETY: for plain integers all-zero bytes are a value.
    let mut st: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fills the structure.
    let asked = unsafe { libc::fstat(fd, &raw mut st) };
    (asked == 0).then_some(st)
}

/// Whether there is such a descriptor, and more can be done with it than to name it.
pub(super) fn takes_requests(fd: i32) -> bool {
    // SAFETY: only asks.
    let status = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    status >= 0 && status & libc::O_PATH == 0
}

/// Whether a descriptor leads to /proc or /sys.
pub fn is_generated(fd: i32) -> bool {
    // SAFETY: only fills the structure.
    unsafe {
        let mut fs: libc::statfs = std::mem::zeroed();
        libc::fstatfs(fd, &raw mut fs) == 0
            && [libc::PROC_SUPER_MAGIC, libc::SYSFS_MAGIC].contains(&fs.f_type)
    }
}

/// The process or thread whose memory a file of `/proc` is, by the name that the kernel has for
/// it: `…/PID/mem`, `…/PID/task/TID/mem`.
#[must_use]
pub fn owner(fd: i32) -> Option<u32> {
    let name = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    let name = name.to_str()?;
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let folder = name.strip_suffix("/mem")?;
    let mut parts = folder.rsplit('/');
    let number: u32 = parts.next()?.parse().ok()?;
    match (parts.next(), parts.next()) {
        (Some("task"), Some(process)) => process.parse().ok(),
        _ => Some(number),
    }
}
