//! The measurements of one run of a workload.

use std::time::Duration;

use serde::Serialize;

use crate::measure::Usage;

/// Limit on the time of a single run.
pub const LIMIT: Duration = Duration::from_secs(300);

/// The measurements of one way.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// CPU time, wall time, memory.
    #[serde(flatten)]
    pub usage: Usage,
    /// Requests per second, for a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
}

impl Sample {
    /// The mean of two turns.
    pub fn mean(&self, other: &Self) -> Self {
        let rates = self.requests_per_second.zip(other.requests_per_second);
        Self {
            usage: self.usage.mean(&other.usage),
            requests_per_second: rates.map(|(one, two)| (one + two) / 2.0),
        }
    }
}
