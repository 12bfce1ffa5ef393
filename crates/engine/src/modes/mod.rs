//! The modes: how a process runs its guest. Each is a folder with a page of its own:
//!
//! | mode | threads | outcomes come from | logs |
//! | --- | --- | --- | --- |
//! | [`run`] | at the same time | the kernel | nothing |
//! | [`serial`] | one at a time, by the baton | the kernel | calls, signals, turns |
//! | [`sketch`] | at the same time | the kernel | calls, signals, the order of operations |
//! | [`replay`] | one host thread for all | the tapes | nothing |
//! | [`parallel`] | at the same time | the tapes | nothing |
//!
//! The part that is common to the modes in which guest threads are host threads is in [`live`].
//! This is the one place that knows all modes: everything else sees the trait
//! [`crate::mode::Mode`].

pub mod checkpoints;
pub mod live;
pub mod parallel;
pub mod replay;
pub mod run;
pub mod serial;
pub mod sketch;

use crate::failure::{Failure, Result};
use crate::mode::{Mode, Name};
use crate::shm::Shm;

/// The mode of a process of this kind, made once.
///
/// # Errors
/// A recording without the memory that it shares with its supervisor.
pub fn choose(name: Name, shm: Option<Shm>, start: serial::Start) -> Result<&'static dyn Mode> {
    Ok(match name {
        Name::Run => &run::Run,
        Name::Serial => {
            let shm = shm.ok_or_else(|| Failure::internal("a recording has shared memory"))?;
            Box::leak(Box::new(serial::Serial::new(shm, start)))
        }
        Name::Sketch | Name::Coherence => {
            let shm = shm.ok_or_else(|| Failure::internal("a recording has shared memory"))?;
            match start.handed_on.turns {
                true => Box::leak(Box::new(serial::Serial::within_sketch(shm, start))),
                false => Box::leak(Box::new(sketch::Sketch::new(
                    shm,
                    &start,
                    name == Name::Coherence,
                ))),
            }
        }
        Name::Replay => &replay::mode::Replay,
        Name::Parallel => &parallel::parallel_mode::Parallel,
    })
}
