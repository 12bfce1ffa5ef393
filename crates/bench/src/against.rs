//! Two builds of the command by turns: the ratio of their CPU times for each workload and way.
//!
//! Both builds run within one repetition, and change places in the next one, so that a machine whose
//! speed drifts does so for both. Each has a cache folder of its own: translations of one build are
//! none of the other's. And each is a copy made just before: how large the pieces are in which the kernel
//! keeps a file decides how many page faults a start takes, and depends on how the file was written. Must
//! never judge: bounds are for the reader.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::figures::Spread;
use crate::inputs::Inputs;
use crate::modes::Way;
use crate::options::{Options, named};
use crate::prepare::{Ready, prepare};
use crate::report::table;
use crate::samples::Bench;
use crate::table::Workload;

/// The ratios of one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The workload.
    pub name: &'static str,
    /// The CPU time of the one build over that of the other, of each way that ran in both.
    pub ratios: BTreeMap<Way, Bounded>,
    /// The reason why it did not run: no failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The failure that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Digests of the output of each way.
type Outputs = BTreeMap<Way, Vec<u128>>;

/// A median with its bounds of 95 % (least and most below six values).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounded {
    /// The median.
    pub median: f64,
    /// Its lower bound.
    pub low: f64,
    /// Its upper bound.
    pub high: f64,
}

impl Bounded {
    /// The bounds of a median by order statistics, without an assumption on the distribution: the
    /// k-th value from either end, for the largest k whose binomial tails hold at most 2.5 % each.
    /// `None` if there are no values.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        let median = Spread::of(values.iter().copied())?.median;
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let mut ways = 1.0;
        let mut tail = 0.0;
        let mut rank = 0;
        for k in 0..count / 2 {
            tail += ways / 2f64.powi(i32::try_from(count).ok()?);
            if tail > 0.025 {
                break;
            }
            rank = k;
            ways *= (count - k) as f64 / (k + 1) as f64;
        }
        Some(Self {
            median,
            low: values[rank],
            high: values[count - 1 - rank],
        })
    }
}

/// Measures this build against the one that the options name, and prints a table. Returns whether
/// all runs succeeded.
///
/// # Errors
/// A folder cannot be used, the results cannot be written.
pub fn execute(
    options: &Options,
    relive: &Path,
    other: &Path,
    wanted: &[&Workload],
    inputs: &Inputs,
    folder: &Path,
) -> Result<bool> {
    let build = |name: &str, relive: &Path| -> Result<Bench> {
        let own = folder.join(name);
        fs::create_dir_all(&own)?;
        let copy = own.join("relive");
        fs::copy(relive, &copy).with_context(|| relive.display().to_string())?;
        Ok(Bench {
            relive: copy,
            scratch: own.join("scratch"),
        })
    };
    let other: PathBuf = other
        .canonicalize()
        .with_context(|| other.display().to_string())?;
    let builds = [build("this", relive)?, build("other", &other)?];
    let mut rows = Vec::new();
    for workload in wanted {
        eprintln!("by turns: {}", workload.name);
        let row = match prepare(workload, inputs) {
            Ok(ready) => measure(&builds, &ready, options.reps)?,
            Err(why) => Row {
                name: workload.name,
                ratios: BTreeMap::new(),
                missing: Some(why),
                failure: None,
            },
        };
        rows.push(row);
    }
    for build in &builds {
        fs::remove_file(&build.relive)?;
        fs::remove_dir_all(&build.scratch).or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
    }
    println!("{}", report(&rows, options.reps));
    if let Some(path) = &options.json {
        fs::write(named(path), serde_json::to_string_pretty(&rows)? + "\n")
            .with_context(|| path.display().to_string())?;
    }
    Ok(rows.iter().all(|row| row.failure.is_none()))
}

/// All repetitions of one workload. A failed run ends the row.
fn measure(builds: &[Bench; 2], ready: &Ready, repetitions: u32) -> Result<Row> {
    let mut ratios: BTreeMap<Way, Vec<f64>> = BTreeMap::new();
    // Its output is the one that both builds have to give.
    let mut natively = Outputs::new();
    builds[0].empty()?;
    let native = builds[0].turn(ready, Way::Native, &mut natively);
    let mut failure = native
        .err()
        .map(|error| format!("{}: {error:#}", Way::Native.name()));
    // The first one translates the program, and does not count.
    for number in 0..=repetitions {
        if failure.is_some() {
            break;
        }
        match repetition(builds, ready, &natively, number % 2 == 0)? {
            Ok(one) if number > 0 => {
                for (way, ratio) in one {
                    ratios.entry(way).or_default().push(ratio);
                }
            }
            Ok(_) => {}
            Err(why) => failure = Some(why),
        }
    }
    let bounded = |(way, values)| Some((way, Bounded::of(values)?));
    Ok(Row {
        name: ready.workload.name,
        ratios: ratios.into_iter().filter_map(bounded).collect(),
        missing: None,
        failure,
    })
}

/// One turn of both builds in each way; `swapped`: the other build first.
fn repetition(
    builds: &[Bench; 2],
    ready: &Ready,
    natively: &Outputs,
    swapped: bool,
) -> Result<std::result::Result<BTreeMap<Way, f64>, String>> {
    for build in builds {
        build.empty()?;
    }
    let mut outputs = [natively.clone(), natively.clone()];
    let mut ratios = BTreeMap::new();
    for way in Way::OWN {
        let mut seconds = [0.0; 2];
        for turn in 0..2 {
            let which = if swapped { 1 - turn } else { turn };
            match builds[which].turn(ready, way, &mut outputs[which]) {
                Ok(sample) => seconds[which] = sample.usage.cpu(),
                Err(error) => {
                    let build = builds[which].relive.display();
                    return Ok(Err(format!("{build}, {}: {error:#}", way.name())));
                }
            }
        }
        ratios.insert(way, seconds[0] / seconds[1]);
    }
    Ok(Ok(ratios))
}

/// The table, readable in a terminal and as Markdown alike.
fn report(rows: &[Row], repetitions: u32) -> String {
    let head = ["workload", "run CPU", "record CPU", "replay CPU"];
    let mut all = vec![head.map(str::to_owned).to_vec()];
    let mut failures = String::new();
    for row in rows {
        let mut cells = vec![row.name.to_owned()];
        cells.extend(Way::OWN.map(|way| match row.ratios.get(&way) {
            Some(Bounded { median, low, high }) => format!("{median:.3} ({low:.3}–{high:.3})"),
            None => "–".to_owned(),
        }));
        all.push(cells);
        if let Some(why) = row.missing.as_ref().or(row.failure.as_ref()) {
            let _ = writeln!(failures, "\n{}: {why}", row.name);
        }
    }
    format!(
        "CPU time of this build over that of the other, by turns: median of {repetitions} \
         repetitions, with bounds of 95 % (of less than six: least and most).\n\n{}{failures}",
        table(&all)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_few_values_are_least_and_most() {
        assert_eq!(Bounded::of(Vec::new()), None);
        let three = Bounded::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((three.low, three.median, three.high), (1.0, 2.0, 3.0));
    }

    #[test]
    fn bounds_of_many_values_leave_out_the_tails() {
        // Of fifteen values the fourth from either end: 1.8 % lie beyond, and 5.9 % beyond the fifth.
        let fifteen = Bounded::of((1..=15).map(f64::from).collect()).unwrap();
        assert_eq!(
            (fifteen.low, fifteen.median, fifteen.high),
            (4.0, 8.0, 12.0)
        );
    }
}
