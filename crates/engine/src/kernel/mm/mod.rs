//! Calls that change the guest's memory map, and calls that would show the host's own map. The engine
//! chooses every address; a replay takes the tape's instead, so that a later version may choose
//! differently. They must never map or release memory outside the guest's windows.

mod brk;
mod holes;
mod map;
pub mod place;
mod protect;
mod remap;
#[cfg(test)]
mod tests;
mod unmap;

pub use brk::Break;
pub use holes::{mincore, msync};
pub use map::Map;
pub use protect::{mprotect, pkey_mprotect};
pub use remap::Remap;
pub use unmap::munmap;
