//! Log output of host processes: `RELIVE_LOG` takes the usual filter syntax, one target per
//! module (`dbt`, `syscall`, `sched`, `watch`).

/// Starts logging to standard error, if that is asked for: setting it up costs every start of a
/// program, and nothing is logged by itself.
pub fn init() {
    use tracing_subscriber::EnvFilter;
    let Ok(filter) = EnvFilter::try_from_env("RELIVE_LOG") else {
        return;
    };
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .without_time()
        .try_init();
}
