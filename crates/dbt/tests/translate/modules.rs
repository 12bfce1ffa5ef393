// The modules of both test binaries.

mod guest;
mod locked;
mod program;
mod raw;
mod state;

mod behind;
mod branches;
mod edges;
mod faults;
mod hashed;
mod invalidate;
mod ordered;
mod random;
mod readings;
mod reclaim;
mod returns;
mod rounds;
mod signals;
mod snapshot;
mod system;
mod tracked;
mod threads;
