//! The guest's signals: its actions, masks and frames are ours; the host's handler only
//! notes. Delivery happens at safe points (asynchronous) or at the faulting instruction.

pub mod deliver;
pub mod frame;
mod xstate;

#[cfg(test)]
mod tests;
