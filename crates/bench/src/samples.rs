//! One repetition of one workload: every way in turn, outputs compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::measure::{Spec, Usage, digest};
use crate::modes::Way;
use crate::prepare::Ready;
use crate::redis;
use crate::table::{Action, Output};
use crate::traces::TraceFacts;

/// No single run may take longer.
pub const LIMIT: Duration = Duration::from_secs(300);

/// What one way took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// CPU time, wall time, memory.
    #[serde(flatten)]
    pub usage: Usage,
    /// Requests per second, for a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
}

/// What one repetition gave.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Repetition {
    /// What each way took.
    pub samples: BTreeMap<Way, Sample>,
    /// Why a way has no sample.
    pub failures: BTreeMap<Way, String>,
    /// The recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceFacts>,
    /// What `relive verify` said, if it was asked: nothing if all was well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Result<(), String>>,
}

/// Where and with what samples are taken.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The command.
    pub relive: PathBuf,
    /// A folder for traces and outputs, emptied before each repetition.
    pub scratch: PathBuf,
}

impl Bench {
    /// Runs a workload once in each way that is asked for.
    ///
    /// # Errors
    /// The scratch folder cannot be used. What goes wrong in a run is part of the result.
    pub fn repetition(&self, ready: &Ready, peers: bool, verify: bool) -> Result<Repetition> {
        if self.scratch.exists() {
            fs::remove_dir_all(&self.scratch)?;
        }
        fs::create_dir_all(&self.scratch)?;
        let mut result = Repetition::default();
        let mut ways = vec![Way::Native];
        ways.extend(Way::OWN);
        if peers && ready.workload.peers {
            ways.extend(Way::PEERS);
        }
        let mut digests = BTreeMap::new();
        for way in ways {
            if way == Way::Replay && !result.samples.contains_key(&Way::Record) {
                let why = "there is no recording".to_owned();
                result.failures.insert(way, why);
                continue;
            }
            match self.way(ready, way, &mut digests) {
                Ok(Some(sample)) => drop(result.samples.insert(way, sample)),
                Ok(None) => drop(result.failures.insert(way, "not installed".to_owned())),
                Err(error) => drop(result.failures.insert(way, format!("{error:#}"))),
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

    fn trace(&self, number: u32) -> PathBuf {
        self.scratch.join(format!("trace-{number}"))
    }

    /// One way; `None` if its tool is not installed.
    fn way(
        &self,
        ready: &Ready,
        way: Way,
        digests: &mut BTreeMap<Way, Vec<u128>>,
    ) -> Result<Option<Sample>> {
        let mut total: Option<Sample> = None;
        for number in 0..ready.workload.repeat {
            let trace = self.trace(number);
            let Some(spec) = self.spec(ready, way, &trace) else {
                return Ok(None);
            };
            let sample = match ready.workload.action {
                Action::Redis => redis::sample(&spec, way, &self.scratch)?,
                Action::Command { .. } => Sample {
                    usage: spec.start()?.finish(LIMIT)?,
                    requests_per_second: None,
                },
            };
            if let Some(output) = &spec.stdout {
                digests.entry(way).or_default().push(digest(output)?);
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
        if let Some(like) = like.filter(|like| digests.contains_key(like)) {
            let same = digests.get(&way) == digests.get(&like);
            ensure!(same, "its output is not that of {}", like.name());
        }
        total.context("a workload runs at least once").map(Some)
    }

    fn spec(&self, ready: &Ready, way: Way, trace: &Path) -> Option<Spec> {
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
