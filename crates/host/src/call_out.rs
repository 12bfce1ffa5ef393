//! The call of one host thread to another to leave translated code, by a signal that is none of the guest's. Must never
//! do more to a thread elsewhere than set its `wanted`.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys;

/// The signal by which one host thread calls another out of translated code. It is one of those
/// that no thread blocks, so that it always arrives.
const CALL_OUT: i32 = libc::SIGTRAP;

/// Its marks among all signals: a code that neither the kernel nor the C library sends, and a
/// value.
const CALL_OUT_CODE: i32 = -0x524c;
const CALL_OUT_VALUE: u64 = 0x5175_6965_7363_6521;

/// Calls that were made and have not arrived with their marks: one that comes without them is told by this. Some of them never come, as the kernel
/// keeps one such signal for a thread. Process-wide: any thread may call another one.
static UNDERWAY: AtomicU32 = AtomicU32::new(0);

/// Lets a thread of the guest leave translated code at its next tick: from now on its
/// [`crate::context::Context::wanted`] is set, which it clears itself. Elsewhere it does nothing to the
/// thread. One that has ended is none, and nothing happens.
pub fn call_out(pid: u32, tid: u32) {
    let mut info = [0u8; 128];
    info[0..4].copy_from_slice(&CALL_OUT.to_le_bytes());
    info[8..12].copy_from_slice(&CALL_OUT_CODE.to_le_bytes());
    info[24..32].copy_from_slice(&CALL_OUT_VALUE.to_le_bytes());
    UNDERWAY.fetch_add(1, Ordering::AcqRel);
    // SAFETY: the kernel reads the structure; the handler of all signals takes this one.
    unsafe {
        let args = [
            pid.into(),
            tid.into(),
            CALL_OUT as u64,
            info.as_ptr() as u64,
            0,
            0,
        ];
        sys::syscall(libc::SYS_rt_tgsigqueueinfo as u64, args)
    };
}

/// Whether a signal is this one, by its siginfo. Where the user's signals that are queued have reached their limit
/// (`RLIMIT_SIGPENDING`, getrlimit(2)), the kernel delivers it without.
pub(crate) fn is_call_out(sig: i32, info: &[u8; 128]) -> bool {
    let is_marked =
        info[8..12] == CALL_OUT_CODE.to_le_bytes() && info[24..32] == CALL_OUT_VALUE.to_le_bytes();
    sig == CALL_OUT && (is_marked || has_lost_info(info)) && arrives(is_marked)
}

/// Whether a signal has lost what it was sent with: it seems to come from process 0, of user 0.
#[must_use]
pub fn has_lost_info(info: &[u8; 128]) -> bool {
    info[8..12] == libc::SI_USER.to_le_bytes() && info[16..24] == [0; 8]
}

/// A call arrives: whether one was underway, or it says itself that it is one.
fn arrives(is_marked: bool) -> bool {
    let less = |n: u32| n.checked_sub(1);
    let was_underway = UNDERWAY.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    is_marked || was_underway.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_its_marks_is_one_if_one_was_made() {
        let mut lost = [0u8; 128];
        lost[0..4].copy_from_slice(&CALL_OUT.to_le_bytes());
        assert!(!is_call_out(CALL_OUT, &lost), "nobody called");
        UNDERWAY.fetch_add(1, Ordering::AcqRel);
        assert!(is_call_out(CALL_OUT, &lost) && !is_call_out(CALL_OUT, &lost));
        UNDERWAY.fetch_add(1, Ordering::AcqRel);
        assert!(!is_call_out(libc::SIGUSR1, &lost));
        lost[16..20].copy_from_slice(&7u32.to_le_bytes());
        assert!(!is_call_out(CALL_OUT, &lost), "a process sent it");
        UNDERWAY.store(0, Ordering::Release);
    }
}
