//! The program's own memory as a file: `/proc/self/mem` by any name or descriptor, and
//! process_vm_readv(2) and process_vm_writev(2) of itself.
//!
//! The descriptor is the kernel's. To the kernel that memory is the host's as well, so transfers are
//! cut here to the regions of the guest's map; the rest is done as the kernel does it
//! (fs/proc/base.c, `mem_rw`), piece by piece. A replay has no such file: bytes read are on the
//! tape, and bytes written are taken from the guest's buffers once more.

mod read_write;
mod transfer;
mod vectors;
pub mod whose;
mod written;

pub use read_write::{Write, read};
pub use vectors::{process_madvise, read_vectors, write_vectors};
