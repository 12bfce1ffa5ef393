//! The processes beside the guest: one drains the rings of a recording into its trace, one
//! watches a replay. They never touch guest memory.

mod alone;
mod children;
mod deadlock;
mod descent;
mod drain;
mod epoch_finder;
mod exact_lock;
mod flight;
mod folder;
mod foreign_writes;
mod forwarding;
mod kept_searches;
mod live_index;
mod record;
mod replay;
mod status;
mod tape_store;
mod target;
mod translated;
mod try_order;
mod verify;

pub use crate::image_stream::HeldOutputs;
pub use crate::modes::replay::checksum::ChecksumInterval;
pub use alone::is_alone;
pub use children::dies_with_parent;
pub(crate) use children::{ended_by, keep_keyboard, kill, start};
pub use deadlock::Deadlock;
pub use drain::Recording;
pub use epoch_finder::{EpochFinder, EpochPlan, FinderEnd, FinderNews};
pub(crate) use exact_lock::ExactLock;
pub use flight::{ANSWER, FlightPart, FlightPlan, FlightWindow, KeepRequest, KeptFlight, RUNS};
pub use folder::Folder;
pub(crate) use folder::remove_folder;
pub use foreign_writes::{other_writers, waits_for_others};
pub use kept_searches::KeptSearches;
pub use live_index::{LiveImages, LiveIndexed};
pub use record::{RecordOptions, record};
pub use replay::{ReplayOptions, Replayed, replay};
pub use status::EndStatus;
pub use target::find_program;
pub use translated::{Counted, run, run_counted};
pub use try_order::{LearntPlaces, learn_places};
pub(crate) use try_order::{Stretch, learn, try_order};
pub(crate) use verify::SMALL_FRAGMENTS;
pub use verify::{Verified, verify};
