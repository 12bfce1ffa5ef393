//! The library from outside: one program, so that the modules that tests share are compiled once.

mod alone;
mod before;
mod check;
mod commits;
mod crash;
mod executor;
mod explorer;
mod header;
mod model;
mod ready;
mod replay;
mod tape;
mod theorem;
#[cfg(feature = "tower")]
mod tower;
#[cfg(feature = "tower")]
mod tower_alone;
