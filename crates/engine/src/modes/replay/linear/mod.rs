//! Linearising: a replay of threads that were recorded at the same time finds an order of turns that agrees with all
//! that the recording says, and writes it down as exact tapes. It runs one thread at a time, as every replay:
//! up to the next place where the recording says when the thread was there or which operation it came after, then the
//! thread that was due first.
//!
//! Edges are obeyed, moments are a guess: whether it was right the events tell, each with its ticks and its
//! digest. Must never write an exact recording of a replay that has not come to its end.

pub mod advance;

mod access_waits;
pub mod bound;
pub mod disagreement;
pub mod due;
pub mod end_place;
pub mod exact_turns;
mod first_moments;
pub mod hints;
pub mod neighbours;
mod next_thread;
mod outlooks;
mod own_outputs;
pub mod path;
mod reach;
pub mod search;
mod turned_races;
pub mod wanted;
mod ways;
