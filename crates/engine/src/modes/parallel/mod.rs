//! Replaying a sketch with its threads on all cores: each guest thread is a thread of the host, which takes its
//! events from its tape, and waits in front of an operation until the one that it follows has been made.
//!
//! Believes: nothing. The tapes say which operation of a thread comes after which one of another, and each event is
//! checked as in every replay. What plain loads and stores of several threads do to each other is not on the tapes: a
//! replay in which it turned out otherwise leaves the recording and ends as a divergence. Moments are hints: an event
//! waits for those of other threads that were over before it began, unless nobody could go on then.
//!
//! Logs: nothing. Exact: if it comes to its end, which it does not for all recordings. Lock order, outermost first:
//! the right to ask ([`crate::broker`]), process state, memory, the replay's state, waits, siblings
//! ([`siblings`]). **No thread waits for another with one of these**: it is at rest while it waits, so that the
//! other may ask for quiet.
//!
//! After Instant Replay (LeBlanc and Mellor-Crummey 1987): each thread waits for the version that its tape names.

pub mod beside;
pub mod followed;
pub mod newborn;
pub mod parallel_mode;
pub mod passed_marks;
pub mod remedy;
pub mod sibling_waits;
pub mod siblings;
pub mod thread_loop;
