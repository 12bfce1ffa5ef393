//! The timeline of one recorded process: a replay that can go to any position, forwards and
//! backwards, and that can be looked at wherever it is.
//!
//! Replaying processes (`replay_process`) do the work; `replay::guided` is their side. A snapshot is
//! a stopped fork of one (`snapshots`). Going back means: go on from the nearest snapshot before.
//! A write to a guest goes to a copy that is thrown away as soon as the replay goes on, so that
//! nothing done here can change the replay.

mod ancestors;
mod at_once;
mod back;
mod calls_in_parts;
mod excerpt;
mod function_calls;
mod image_list;
mod images;
mod index;
mod index_check;
mod kept;
mod last_hit;
mod parts;
mod plain_calls;
mod portions;
mod present;
mod queries;
mod race_replay;
mod replay_end;
mod replay_parts;
mod replay_process;
mod route;
mod snapshots;
mod spot;
mod travel;
mod verify_parts;

pub use crate::guide::point::{Point, Steps};
pub use crate::guide::protocol::{
    AtStop, Ended, Hit, MapLine, OTHERS, Output, Past, Ran, ReplayStatus, Request, Response,
    RunRequest, StopEvent, StopReason, StopSet, Thread, Watching, Watchpoint,
};
pub use crate::guide::races::{AccessOrder, OrderedAccess, Race, RaceAccess, RaceHints, Races};
pub use crate::guide::register_set::{Registers, vector_places, vector_state};
pub use ancestors::{Follow, child, crashes, follow, processes};
pub use excerpt::{Beginning, CutPlace, Excerpted, beginning, make_excerpt, refuse_sharing};
pub use function_calls::{CallObserver, Callee, FunctionCall, Moment, Observed};
pub use index::{Indexed, Places, index};
pub use index_check::check_index;
pub(crate) use parts::at_a_time;
pub use present::{Stopped, Timeline};
pub use queries::{EventPlace, LastWrite};
pub use race_replay::{orders, races};
pub use replay_parts::replay_in_parts;
pub use replay_process::{Interrupter, ReplayProcess, Uninterrupted};
pub use spot::{Fine, NoSpot, Spot};
pub use verify_parts::{PartsVerified, verify_in_parts};
