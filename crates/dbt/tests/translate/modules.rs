// The modules of both test binaries.

mod guest;
mod program;
mod raw;
mod state;

mod behind;
mod branches;
mod faults;
mod hashed;
mod invalidate;
mod random;
mod readings;
mod reclaim;
mod returns;
mod signals;
mod snapshot;
mod system;
mod threads;
