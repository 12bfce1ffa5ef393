//! seccomp(2) for the guest: its filters are run here, before each of its calls. They must never be given
//! to the kernel, which would apply them to the host. Recording and replay run them alike: a filter's
//! answer depends on the call alone.

pub mod bpf;
pub mod filter;
