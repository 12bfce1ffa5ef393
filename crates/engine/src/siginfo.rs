//! The kernel's `siginfo_t` as bytes: numbers and addresses in it, and those of faults.

pub use relive_host::context::fault_addr;

/// The kernel's `siginfo_t`, byte for byte.
pub type SigInfo = [u8; 128];

/// The signal number in a siginfo.
#[must_use]
pub fn signo(info: &SigInfo) -> i32 {
    i32::from_le_bytes([info[0], info[1], info[2], info[3]])
}

/// A siginfo for a fault: number, code, address.
#[must_use]
pub fn fault_info(sig: i32, code: i32, addr: u64) -> SigInfo {
    let mut info = [0; 128];
    info[0..4].copy_from_slice(&sig.to_le_bytes());
    info[8..12].copy_from_slice(&code.to_le_bytes());
    info[16..24].copy_from_slice(&addr.to_le_bytes());
    info
}
