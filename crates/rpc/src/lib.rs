#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! The crate looks at no framework, starts one thread per recording and one per replay, and must never
//! hang without a word: a task that waits gets a result, or a [`Halt`] that says why not.

#![forbid(unsafe_code)]

mod alone;
mod branches;
mod bytes;
mod causal;
mod checker;
mod client;
mod current;
mod decoder;
mod encoder;
mod entry;
mod folder;
mod gate;
mod halt;
mod header;
mod id;
mod known;
mod lane;
mod live;
mod name;
mod outcome;
mod payload;
mod primitives;
mod ready;
mod record;
mod recorder;
mod recording;
mod replay;
mod replayer;
mod scoped;
mod senders;
mod session;
mod shared;
mod sync;
pub mod tape;
mod task;
#[cfg(feature = "tower")]
pub mod tower;
mod watch;
mod watched;
mod writer;

pub use alone::{Incoming, Requests};
pub use bytes::Malformed;
pub use causal::close;
pub use checker::Finding;
pub use client::{CallError, call, depend, exchange, halted, try_call};
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use entry::{Admission, EntryPoint, Group};
pub use folder::read_all;
pub use halt::{Divergence, Halt, Kind};
pub use header::{Content, HEADER_MAX, HEADER_NAME, Header, HeaderText, Mark};
pub use id::{Named, Names, Origin, Path, RequestId, STEPS_MAX, TaskId};
pub use name::{NAME_MAX, Name, NameId};
pub use outcome::{CHECK_VARIABLE, OpenError, Outcome, VARIABLE};
#[doc(hidden)]
pub use primitives::last_branch;
pub use primitives::{Either, nondet, select, test, timeout, try_nondet};
pub use ready::{
    ConfigError, UniqueId, config, elapsed, file, now, random, random_below, unique_id, var, vars,
};
pub use record::{LaneKind, Member, Receipt, Record, StreamId, VALUE_MAX};
pub use recorder::Keep;
pub use scoped::{Scoped, fork, fork_thread};
pub use session::{LIMIT, Session};
pub use sync::{Guard, Lock, Receiver, Sender};
pub use tape::{Tape, TapeError};
pub use task::Task;
pub use watched::State;
