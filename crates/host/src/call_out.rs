//! The call of one host thread to another to leave translated code, by a signal that is none of the guest's. Must never
//! do more to a thread elsewhere than set its `wanted`.

use crate::sys;

/// The signal by which one host thread calls another out of translated code. It is one of those
/// that no thread blocks, so that it always arrives.
const CALL_OUT: i32 = libc::SIGTRAP;

/// Its marks among all signals: a code that neither the kernel nor the C library sends, and a
/// value.
const CALL_OUT_CODE: i32 = -0x524c;
const CALL_OUT_VALUE: u64 = 0x5175_6965_7363_6521;

/// Lets a thread of the guest leave translated code at its next tick: from now on its
/// [`crate::context::Context::wanted`] is set, which it clears itself. Elsewhere it does nothing to the
/// thread. One that has ended is none, and nothing happens.
pub fn call_out(pid: u32, tid: u32) {
    let mut info = [0u8; 128];
    info[0..4].copy_from_slice(&CALL_OUT.to_le_bytes());
    info[8..12].copy_from_slice(&CALL_OUT_CODE.to_le_bytes());
    info[24..32].copy_from_slice(&CALL_OUT_VALUE.to_le_bytes());
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

/// Whether a signal is this one, by its siginfo.
pub(crate) fn is_call_out(sig: i32, info: &[u8; 128]) -> bool {
    sig == CALL_OUT
        && info[8..12] == CALL_OUT_CODE.to_le_bytes()
        && info[24..32] == CALL_OUT_VALUE.to_le_bytes()
}
