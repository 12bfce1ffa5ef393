//! Measures the cost of `relive run`, `relive record` and `relive replay` beside a native run.
//!
//! `cargo bench -p relive-bench` runs every [`table::WORKLOADS`] row natively, translated, recorded
//! and replayed, in turn in one run, so that a change of the machine's speed affects all of them,
//! and prints ratios with their spread. Figures are for people: nothing here may ever assert a
//! time. A row that cannot run is shown as missing, a run that fails as failed; neither is left
//! out.

pub mod against;
pub mod cores;
pub mod epoch_queue;
pub mod figures;
pub mod inputs;
pub mod machine;
pub mod measure;
pub mod modes;
pub mod options;
pub mod page;
pub mod peers;
pub mod prepare;
pub mod redis;
pub mod report;
pub mod sample;
pub mod samples;
pub mod session;
pub mod sources;
pub mod spare_cores;
pub mod table;
pub mod traces;
pub mod travel;

use std::path::Path;
use std::process::ExitCode;

/// The whole benchmark, with its files in a folder below this one; the exit status is 1 if a
/// run failed.
pub fn main(folder: &Path) -> ExitCode {
    match session::execute(&options::parse(), &folder.join("bench")) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
