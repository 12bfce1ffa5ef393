//! The crate's tests, as one program: each program is linked with all optimizations, which takes longer than its tests.

mod codec;
mod common;
mod damage;
mod excerpt;
mod files;
mod format_page;
mod full;
mod input;
mod locations;
mod old_traces;
mod part;
mod round_trip;
mod within;
