//! The search for an order of threads that a sketch does not say, on from where its first replay gave up: attempts
//! go on from snapshots, several at the same time, their results are kept in the trace, and races are turned
//! around in turns with the neighbouring orders. The next attempt follows from the known results; snapshots, the number of
//! attempts at the same time and interruptions change the time alone. A replay of all processes tells which of them has left the recording;
//! its order is then searched by itself, with what is known of the others. **An order is believed once a replay from the beginning has
//! gone its way to the end and has written it.**

mod epoch_searches;
mod epoch_state;
mod epochs;
mod exploration;
mod explored;
mod finding;
mod first_replay;
mod first_search;
mod following;
mod joined_epochs;
mod joining;
mod pool;

pub use self::epoch_searches::EpochAnswer;
pub use self::epochs::{epochs, has_epochs, missing_epochs, search_epoch};
pub use self::exploration::{Attempted, ExploreEnd, ExploreOptions, ExploreWatcher};
pub use self::finding::{FirstFound, explore, linearise};
pub use self::first_replay::FirstReplay;
pub use self::first_search::{ATTEMPTS, Linearising};
pub use self::following::follow;
pub use crate::modes::replay::epoch::Epoch;
