//! Log output of host processes: `RELIVE_LOG` names levels, for all or by target, one target per
//! module (`dbt`, `syscall`, `sched`, `watch`).

use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

/// Starts logging to standard error, if `RELIVE_LOG` is set: the setup would slow down every start of a
/// program, and nothing is logged by default.
pub fn init() {
    let Ok(wanted) = std::env::var("RELIVE_LOG") else {
        return;
    };
    let levels = match wanted.parse::<Targets>() {
        Ok(levels) => levels,
        Err(why) => {
            eprintln!("relive: RELIVE_LOG={wanted}: {why}; it takes a level, or target=level,…");
            return;
        }
    };
    let _ = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(std::io::stderr)
        .without_time()
        .finish()
        .with(levels)
        .try_init();
}
