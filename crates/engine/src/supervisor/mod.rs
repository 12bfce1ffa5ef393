//! The processes beside the guest: one drains the rings of a recording into its trace, one
//! watches a replay. They never touch guest memory.

mod children;
mod deadlock;
mod drain;
mod exact_lock;
mod folder;
mod linearise;
mod other_writers;
mod program;
mod record;
mod replay;
mod run;
mod signals;
mod status;
mod verify;

pub(crate) use children::{ended_by, keep_keyboard, kill, start};
pub use deadlock::Deadlock;
pub use drain::Recording;
pub(crate) use exact_lock::ExactLock;
pub use folder::Folder;
pub(crate) use linearise::try_order;
pub use linearise::{ATTEMPTS, Linearising, linearise};
pub use other_writers::{other_writers, waits_for_others};
pub use program::find_program;
pub use record::{RecordOptions, record};
pub use replay::{ReplayOptions, Replayed, replay};
pub use run::{Counted, run, run_counted};
pub use status::EndStatus;
pub use verify::{Verified, verify};
