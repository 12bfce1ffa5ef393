//! Medians, spreads and means of samples.
//!
//! Ratios are formed within one repetition, with runs that follow each other, and only then is the
//! median taken: a machine that is slower for a while slows both sides.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::modes::Way;
use crate::sample::Sample;
use crate::samples::Repetition;
use crate::table::Workload;
use crate::traces::TraceFacts;

/// A median with the extremes beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// The spread of some values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut all: Vec<f64> = values.into_iter().collect();
        all.sort_by(f64::total_cmp);
        let (least, most) = (*all.first()?, *all.last()?);
        let middle = all.len() / 2;
        let median = if all.len() % 2 == 1 {
            all[middle]
        } else {
            (all[middle - 1] + all[middle]) / 2.0
        };
        Some(Self {
            median,
            least,
            most,
        })
    }
}

/// Figures of one way beside native ones.
#[derive(Clone, Debug, Serialize)]
pub struct Ratios {
    /// CPU time over native.
    pub cpu: Spread,
    /// Wall time over native.
    pub wall: Spread,
}

/// All data about one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub what: &'static str,
    /// Recorded CPU over native, at most: the project's own bar.
    pub bar: f64,
    /// Whether it counts in the mean.
    pub in_mean: bool,
    /// The reason why it did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The measurements.
    pub repetitions: Vec<Repetition>,
    /// Figures of each way but the native one.
    pub ratios: BTreeMap<Way, Ratios>,
    /// Wall time of the replay over that of its recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_over_record: Option<Spread>,
    /// Requests per second over native: run and record.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub throughput: BTreeMap<Way, Spread>,
    /// Median of native CPU seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_cpu: Option<Spread>,
}

impl Row {
    /// A row that could not run.
    pub fn missing(workload: &Workload, why: String) -> Self {
        Self {
            missing: Some(why),
            ..Self::of(workload, Vec::new())
        }
    }

    /// A row with its figures.
    pub fn of(workload: &Workload, repetitions: Vec<Repetition>) -> Self {
        let own = Way::OWN
            .into_iter()
            .chain(Way::ON_ALL_CORES)
            .chain(Way::PEERS);
        let ratios = own.filter_map(|way| {
            let over = |value: fn(&Sample) -> f64| over(&repetitions, way, Way::Native, value);
            let cpu = over(|sample| sample.usage.cpu())?;
            let wall = over(|sample| sample.usage.wall)?;
            Some((way, Ratios { cpu, wall }))
        });
        let rate = |way| {
            let value = |sample: &Sample| sample.requests_per_second.unwrap_or(f64::NAN);
            over(&repetitions, way, Way::Native, value)
        };
        let native = repetitions
            .iter()
            .filter_map(|repetition| repetition.samples.get(&Way::Native));
        Self {
            name: workload.name,
            what: workload.what,
            bar: workload.bar,
            in_mean: workload.in_mean,
            missing: None,
            ratios: ratios.collect(),
            replay_over_record: over(&repetitions, Way::Replay, Way::Record, |sample| {
                sample.usage.wall
            }),
            throughput: [Way::Run, Way::Record]
                .into_iter()
                .filter_map(|way| Some((way, rate(way)?)))
                .collect(),
            native_cpu: Spread::of(native.map(|sample| sample.usage.cpu())),
            repetitions,
        }
    }

    /// Failures, each once, with its way.
    pub fn failures(&self) -> Vec<(&'static str, &str)> {
        let mut all = Vec::new();
        for repetition in &self.repetitions {
            let failed = repetition.failures.iter();
            let verify = match &repetition.verified {
                Some(Err(why)) => Some(("verify", why.as_str())),
                _ => None,
            };
            for failure in failed
                .map(|(way, why)| (way.name(), why.as_str()))
                .chain(verify)
            {
                if !all.contains(&failure) {
                    all.push(failure);
                }
            }
        }
        all
    }

    /// The recording of the last repetition that has one.
    pub fn trace(&self) -> Option<TraceFacts> {
        self.repetitions
            .iter()
            .rev()
            .find_map(|repetition| repetition.trace)
    }

    /// Median bytes of the largest process.
    pub fn peak(&self, way: Way) -> Option<f64> {
        self.median(way, |sample| sample.usage.peak as f64)
    }

    fn median(&self, way: Way, value: impl Fn(&Sample) -> f64) -> Option<f64> {
        let samples = self
            .repetitions
            .iter()
            .filter_map(|repetition| repetition.samples.get(&way));
        Spread::of(samples.map(value)).map(|spread| spread.median)
    }
}

/// The ratio of two ways of one value, repetition by repetition.
fn over(
    repetitions: &[Repetition],
    way: Way,
    base: Way,
    value: impl Fn(&Sample) -> f64,
) -> Option<Spread> {
    let ratio = |repetition: &Repetition| {
        let samples = &repetition.samples;
        let ratio = value(samples.get(&way)?) / value(samples.get(&base)?);
        ratio.is_finite().then_some(ratio)
    };
    Spread::of(repetitions.iter().filter_map(ratio))
}

/// The geometric mean of the CPU ratios of one way over the rows that count; `None` unless all
/// of them have one.
pub fn mean(rows: &[Row], way: Way) -> Option<f64> {
    let counted: Vec<&Row> = rows.iter().filter(|row| row.in_mean).collect();
    let logs: Option<Vec<f64>> = counted
        .iter()
        .map(|row| row.ratios.get(&way).map(|ratios| ratios.cpu.median.ln()))
        .collect();
    let logs = logs.filter(|logs| !logs.is_empty())?;
    Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Usage;
    use crate::table::WORKLOADS;

    fn repetition(native: f64, record: f64) -> Repetition {
        let sample = |seconds| Sample {
            usage: Usage {
                wall: seconds,
                user: seconds,
                ..Usage::default()
            },
            requests_per_second: None,
        };
        Repetition {
            samples: [(Way::Native, sample(native)), (Way::Record, sample(record))].into(),
            ..Repetition::default()
        }
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(Spread::of([]), None);
        let odd = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.least, odd.median, odd.most), (1.0, 2.0, 3.0));
        assert_eq!(Spread::of([1.0, 4.0]).unwrap().median, 2.5);
    }

    #[test]
    fn ratios_are_formed_within_a_repetition() {
        // A machine that became ten times slower: twice the time in each repetition.
        let row = Row::of(
            &WORKLOADS[0],
            vec![repetition(1.0, 2.0), repetition(10.0, 20.0)],
        );
        let cpu = row.ratios[&Way::Record].cpu;
        assert_eq!((cpu.least, cpu.median, cpu.most), (2.0, 2.0, 2.0));
        assert!(!row.ratios.contains_key(&Way::Run));
    }

    #[test]
    fn the_mean_wants_all_its_rows() {
        let counted = || WORKLOADS.iter().filter(|workload| workload.in_mean);
        let rows: Vec<Row> = counted()
            .zip([1.0, 4.0, 2.0, 2.0, 2.0])
            .map(|(workload, ratio)| Row::of(workload, vec![repetition(1.0, ratio)]))
            .collect();
        assert_eq!(rows.len(), 5);
        assert!((mean(&rows, Way::Record).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(mean(&rows, Way::Run), None);
        let mut without = rows;
        without[2] = Row::missing(counted().nth(2).unwrap(), "not installed".into());
        assert_eq!(mean(&without, Way::Record), None);
    }
}
