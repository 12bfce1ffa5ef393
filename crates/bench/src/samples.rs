//! One repetition of one workload: every way in turn, there and back, outputs compared.
//!
//! A machine that becomes slower or faster meanwhile affects all ways alike, as each has its two
//! turns at the same distance from the middle.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::measure::{Spec, digest};
use crate::modes::Way;
use crate::prepare::Ready;
use crate::redis;
use crate::sample::{LIMIT, Sample};
use crate::table::{Action, Output};
use crate::traces::TraceFacts;

/// The reason why a way has no sample where its tool is missing: not a failure.
pub const NOT_INSTALLED: &str = "not installed";

/// The results of one repetition.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Repetition {
    /// The sample of each way.
    pub samples: BTreeMap<Way, Sample>,
    /// The reason why a way has no sample.
    pub failures: BTreeMap<Way, String>,
    /// The recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceFacts>,
    /// The outcome of `relive verify`, if requested: nothing if all was well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Result<(), String>>,
}

/// The command and the folder for taking samples.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The command.
    pub relive: PathBuf,
    /// A folder for traces and outputs, emptied before each repetition.
    pub scratch: PathBuf,
}

impl Bench {
    /// Runs a workload natively and in these ways, there and back, and once in the other ones.
    ///
    /// # Errors
    /// The scratch folder cannot be used. A failed run is part of the result.
    pub fn repetition(
        &self,
        ready: &Ready,
        own: &[Way],
        peers: &[Way],
        verify: bool,
    ) -> Result<Repetition> {
        self.empty()?;
        let mut result = Repetition::default();
        let there = [Way::Native].into_iter().chain(own.iter().copied());
        let turns = there.clone().chain(peers.iter().copied());
        let mut outputs = BTreeMap::new();
        for way in turns.chain(there.rev()) {
            if result.failures.contains_key(&way) {
                continue;
            }
            match self.turn(ready, way, &mut outputs) {
                Ok(sample) => {
                    let first = result.samples.get(&way);
                    let mean = first.map_or(sample, |first| first.mean(&sample));
                    result.samples.insert(way, mean);
                }
                Err(error) => {
                    result.samples.remove(&way);
                    result.failures.insert(way, format!("{error:#}"));
                }
            }
        }
        if let Some(sample) = result.samples.get(&Way::Record) {
            let traces = (0..ready.workload.repeat).map(|n| self.trace(n));
            let seconds = sample.usage.wall / f64::from(ready.workload.repeat);
            let facts: Result<Vec<_>> = traces
                .map(|trace| TraceFacts::of(&trace, seconds))
                .collect();
            result.trace = facts?.into_iter().reduce(TraceFacts::and);
            result.verified = verify.then(|| self.verify());
        }
        fs::remove_dir_all(&self.scratch)?;
        Ok(result)
    }

    /// Makes the scratch folder, without anything in it.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn empty(&self) -> Result<()> {
        if self.scratch.exists() {
            fs::remove_dir_all(&self.scratch)?;
        }
        fs::create_dir_all(&self.scratch)?;
        Ok(())
    }

    fn trace(&self, number: u32) -> PathBuf {
        self.scratch.join(format!("trace-{number}"))
    }

    /// One way once. `outputs`: digests of the output of each way at its latest turn.
    ///
    /// # Errors
    /// The run failed, or gave another output than it should.
    pub fn turn(
        &self,
        ready: &Ready,
        way: Way,
        outputs: &mut BTreeMap<Way, Vec<u128>>,
    ) -> Result<Sample> {
        let mut total: Option<Sample> = None;
        let mut written = Vec::new();
        let recorded = outputs.contains_key(&Way::Record);
        ensure!(way != Way::Replay || recorded, "there is no recording");
        for number in 0..ready.workload.repeat {
            let trace = match way {
                way if Way::ON_ALL_CORES.contains(&way) => {
                    self.scratch.join(format!("{}-{number}", way.name()))
                }
                _ => self.trace(number),
            };
            let records = way == Way::Record || Way::ON_ALL_CORES.contains(&way);
            if records && trace.exists() {
                fs::remove_dir_all(&trace)?;
            }
            let spec = self.spec(ready, way, &trace).context(NOT_INSTALLED)?;
            let sample = match ready.workload.action {
                Action::Redis { io_threads } => {
                    redis::sample(&spec, way, io_threads, &self.scratch)?
                }
                Action::Command { .. } => Sample {
                    usage: spec.start()?.finish(LIMIT)?,
                    requests_per_second: None,
                },
            };
            if let Some(output) = &spec.stdout {
                written.push(digest(output)?);
            }
            total = Some(match total {
                None => sample,
                Some(before) => Sample {
                    usage: before.usage.then(sample.usage),
                    ..sample
                },
            });
        }
        let like = match (ready.workload.output, way) {
            (Output::Discarded, _) | (_, Way::Native) => None,
            (_, Way::Replay) => Some(Way::Record),
            (Output::Same, _) => Some(Way::Native),
            (Output::Varies, _) => None,
        };
        if let Some((like, its)) = like.and_then(|like| outputs.get_key_value(&like)) {
            ensure!(*its == written, "its output is not that of {}", like.name());
        }
        outputs.insert(way, written);
        total.context("a workload runs at least once")
    }

    /// The command line of a way with its files.
    pub fn spec(&self, ready: &Ready, way: Way, trace: &Path) -> Option<Spec> {
        let kept = ready.workload.output != Output::Discarded;
        let replays = way == Way::Replay;
        Some(Spec {
            argv: way.command(&self.relive, trace, &ready.argv)?,
            stdin: ready.stdin.clone().filter(|_| !replays),
            stdout: kept.then(|| self.scratch.join("output")),
            stderr: self.scratch.join("errors"),
            folder: self.scratch.clone(),
        })
    }

    fn verify(&self) -> Result<(), String> {
        let spec = Spec {
            argv: vec![
                self.relive.clone().into(),
                "verify".into(),
                self.trace(0).into(),
            ],
            stdin: None,
            stdout: None,
            stderr: self.scratch.join("errors"),
            folder: self.scratch.clone(),
        };
        let ended = spec.start().and_then(|running| running.finish(LIMIT * 2));
        ended.map(drop).map_err(|error| format!("{error:#}"))
    }
}
