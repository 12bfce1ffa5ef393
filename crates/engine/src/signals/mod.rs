//! The guest's signals: the engine keeps its actions and masks and builds its frames. The host's handler
//! must never deliver a signal to the guest, only note it: delivery happens at safe points (asynchronous)
//! or at the faulting instruction.

pub mod deliver;
pub mod frame;
pub mod xstate;

#[cfg(test)]
mod tests;
