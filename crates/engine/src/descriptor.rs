//! Questions to the kernel about a descriptor of the guest's. Must change nothing.

/// The status of a descriptor by fstat(2); `None` for a bad one.
pub fn status(fd: i32) -> Option<libc::stat> {
    // SAFETY: for plain integers all-zero bytes are a value.
    let mut st: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fills the structure.
    let asked = unsafe { libc::fstat(fd, &raw mut st) };
    (asked == 0).then_some(st)
}

/// Whether the descriptor is open, and not only as a place in the file tree (`O_PATH`).
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

/// The process whose memory a file of `/proc` is, by the kernel's name for the file: `…/PID/mem`,
/// `…/PID/task/TID/mem`. A thread's own folder, `…/TID/mem`, gives the thread.
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
