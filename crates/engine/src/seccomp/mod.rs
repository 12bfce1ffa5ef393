//! seccomp(2) for the guest: its filters are run here, before each of its calls, and never given
//! to the kernel, which would apply them to the host. The same in recording and replay: what a
//! filter says depends on the call alone.

pub mod bpf;
pub mod filter;
