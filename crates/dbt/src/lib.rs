//! The same-ISA binary translator: x86-64 guest code runs on the x86-64 host, in the same
//! process, out of a code cache.
//!
//! The path of a piece of guest code: `code` reads its bytes, `decode` and `classify` identify each
//! instruction, `mangle` emits its translation through `emit` into the `cache`, `passes` instrument
//! it, `link` and `table` connect fragments, `resolve` answers every exit to the host, and
//! `recover` turns a fault in the cache back into exact guest state.
//!
//! The crate never makes a guest system call, never looks at a trace and never decides
//! policy: it stops with a [`Stop`] and leaves the rest to its user.
//!
//! Three limits are known and accepted. A jump to one of the non-canonical addresses `a + n * 2^61`
//! of a low address `a` is reported at the target instead of at the jump. A jump to an address in
//! `0xffff_ffff_f400_0000..0xffff_ffff_ff00_0000` (no user program can have code there) reads
//! memory below the branch table as if it were a slot. A jump to an address from 63 to 96 MiB,
//! while the guest has mapped the annex (there can be no code then), takes the guest's memory there
//! for a slot.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

// The tests that run guest code are shared with the integration tests, which see it by this name.
#[cfg(test)]
extern crate self as relive_dbt;

mod access;
mod addr_map;
mod alias;
mod align;
mod arrival;
mod behind;
mod body;
mod cache;
mod cache_window;
mod classify;
mod code;
mod decode;
mod defect;
mod emit;
mod entry;
mod exit;
mod exits;
mod fip;
mod flags;
mod forced;
mod fragment;
mod fragments;
mod guest_state;
mod hashed;
mod instr_op;
mod kept_file;
mod kept_regions;
mod kept_slots;
mod landing;
mod link;
mod log;
mod looks;
mod mangle;
mod marks;
mod neighbours;
mod options;
mod own_pages;
mod paired;
mod passes;
mod reclaim;
mod records;
mod recover;
mod resolve;
mod shadow;
mod sites;
mod snapshot;
mod stats;
mod stop;
mod table;
mod taken_over;
mod translate;
mod translator;
mod unit;
mod units;
mod view;
mod watched;
mod xsave;

pub use access::{Access, accesses, fetch, repeats};
pub use behind::Behind;
pub use code::Code;
pub use defect::Defect;
pub use flags::{dead_flags_at, flags_dead_at};
pub use forced::{Ask, open_memory};
pub use instr_op::{GeneralProtection, InstrOp, Width};
pub use kept_regions::Read;
pub use options::{AtPause, FRAGMENT_INSNS, NeighbourRule, Options, Ordered, Pairs};
pub use sites::Sites;
pub use stats::Stats;
pub use stop::{Bad, Error, Next, Stop, TrapKind};
pub use taken_over::Compare;
pub use translator::Translator;
pub use watched::Watched;
