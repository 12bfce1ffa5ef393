//! The library from outside: one program, so that what the tests share is compiled and used once.

mod alone;
mod before;
mod check;
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
