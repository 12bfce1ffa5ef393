//! The `relive` command from outside: real runs of small programs.

mod backtrace;
mod calls;
mod cli_page;
mod damage;
mod demo;
mod end;
mod hostile;
mod hunt;
mod inspect;
mod kept;
mod limits;
mod pack;
mod place;
mod positions;
mod remarks;
mod rpc;
mod sandbox;
mod shut_in;
mod stats;
mod streams;
mod terminal;
mod travel;
mod usage;
mod variables;
mod windows;
mod writes;
