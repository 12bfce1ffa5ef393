//! Log output of host processes: `RELIVE_LOG` takes the usual filter syntax, one target per
//! module (`dbt`, `syscall`, `sched`).

/// Starts logging to standard error.
pub fn init() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("RELIVE_LOG").unwrap_or_else(|_| EnvFilter::new("error"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .without_time()
        .try_init();
}
