//! `docs/performance.md`: the list of workloads, which a test compares with the table, and the
//! figures of one run between two marks.

use std::path::Path;

use anyhow::{Context, Result};

use crate::table::{Action, WORKLOADS};
use crate::travel::TRIPS;

/// Begins a part of the page that is generated; [`END`] ends it.
const BEGIN: &str = "<!-- begin ";
/// Ends a part.
const END: &str = "<!-- end -->";

/// The list of workloads, in the form of the page.
pub fn list() -> String {
    let mut text = "| workload | content | at most |\n| --- | --- | --- |\n".to_owned();
    for workload in WORKLOADS {
        let what = workload.what.replace('|', "\\|");
        let bar = match workload.action {
            Action::Redis { .. } => format!("{:.0} % of the throughput kept", 100.0 / workload.bar),
            Action::Command { .. } if workload.in_mean => "1.30 in the mean of five".to_owned(),
            Action::Command { .. } => format!("{:.2}", workload.bar),
        };
        text += &format!("| `{}` | {what} | {bar} |\n", workload.name);
    }
    for trip in TRIPS {
        text += &format!("| `{}` | {} | see below |\n", trip.name, trip.what);
    }
    text
}

/// The text of one part of a page.
///
/// # Errors
/// The page has no such part.
pub fn part<'a>(page: &'a str, name: &str) -> Result<&'a str> {
    let begin = format!("{BEGIN}{name} -->\n");
    let missing = || format!("the page has no mark '{}'", begin.trim());
    let from = page.find(&begin).with_context(missing)? + begin.len();
    let to = page[from..].find(END).with_context(missing)?;
    Ok(&page[from..from + to])
}

/// Replaces parts of a page on disk.
///
/// # Errors
/// It cannot be read or written, or has no such part.
pub fn write(path: &Path, parts: &[(&str, String)]) -> Result<()> {
    let mut page = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    for (name, text) in parts {
        let old = part(&page, name)?;
        let from = old.as_ptr() as usize - page.as_ptr() as usize;
        let range = from..from + old.len();
        page.replace_range(range, &format!("\n{}\n\n", text.trim()));
    }
    std::fs::write(path, page)?;
    Ok(())
}
