//! The guest's signals: its actions, masks and frames are ours; the host's handler only
//! notes. Delivery happens at safe points (asynchronous) or at the faulting instruction.

pub mod action;
pub mod calls;
pub mod deliver;
mod frame;
pub mod info;
pub mod state;
mod xstate;
