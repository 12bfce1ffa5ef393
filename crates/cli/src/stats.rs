//! `--stats`: counters of a run, as text and as JSON, on standard error when all has ended.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use relive_engine::stats::Totals;
use relive_engine::supervisor::{FinderEnd, HeldOutputs};
use relive_trace::Summary;
use serde::{Deserialize, Serialize};

use crate::args::StatsFormat;
use crate::format;

/// Sections in the order in which they are shown; keys in JSON.
const SECTIONS: [&str; 8] = [
    "translation",
    "indirect_misses",
    "exits",
    "system_calls",
    "events",
    "trace",
    "epochs",
    "output",
];

/// Numbers by section and name.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stats(BTreeMap<String, BTreeMap<String, u64>>);

impl Stats {
    /// From the counters, and the recording's own summary.
    pub fn new(totals: &Totals, recorded: Option<&Summary>) -> Self {
        let mut stats = Self::default();
        let t = &totals.translator;
        stats.section(
            "translation",
            [
                ("processes", totals.hosts),
                ("processes not counted", totals.uncounted),
                ("fragments", t.fragments),
                ("fragments taken over", t.taken_over),
                ("fragments for single steps", t.step_fragments),
                ("guest instructions", t.guest_insns),
                ("bytes of code", t.hot_bytes),
                ("bytes of exits", t.cold_bytes),
                ("entries added", t.late_entries),
                ("links", t.links),
                ("fragments forgotten", t.invalidated),
                ("fragments evicted", t.evicted),
                ("bytes reclaimed", t.reclaimed_bytes),
                ("bytes reused", t.reused_bytes),
                ("reclaims", t.reclaims),
                ("flushes", t.flushes),
                ("nanoseconds", t.translation_ns),
            ],
        );
        stats.section(
            "indirect_misses",
            [
                ("jumps and calls", t.jump_misses),
                ("returns", t.return_misses),
                ("at another's landing", t.mismatches),
                ("outside of the table", t.table_faults),
            ],
        );
        stats.section("exits", t.exits());
        let calls = totals.calls().map(|(nr, n)| {
            let name = relive_kabi::row(nr.into()).map(|row| row.name.to_owned());
            (name.unwrap_or_else(|| format!("number {nr}")), n)
        });
        stats.section("system_calls", calls);
        stats.section("events", totals.events());
        if let Some(summary) = recorded {
            stats.section(
                "trace",
                [
                    ("events", summary.events),
                    ("bytes before compression", summary.raw_bytes),
                    ("bytes after compression", summary.stored_bytes),
                ],
            );
        }
        stats
    }

    /// Adds what became of the epochs of a recording, for which its program has waited so long.
    pub fn add_epochs(&mut self, end: &FinderEnd, held: Duration) {
        self.section(
            "epochs",
            [
                ("found", (end.epochs - end.missing) as u64),
                ("found while the program ran", end.meanwhile.into()),
                ("found by more than one attempt", end.searched as u64),
                ("not found", end.missing as u64),
                ("attempts", end.attempts.into()),
                (
                    "milliseconds of putting them together",
                    end.joining.as_millis() as u64,
                ),
                (
                    "milliseconds for which the program waited",
                    held.as_millis() as u64,
                ),
            ],
        );
    }

    /// Adds for how long output was held back.
    pub fn add_outputs(&mut self, outputs: &HeldOutputs) {
        self.section(
            "output",
            [
                ("held back", outputs.number),
                ("microseconds of that", outputs.delay.as_micros() as u64),
                ("microseconds at most", outputs.longest.as_micros() as u64),
            ],
        );
    }

    fn section<N: Into<String>>(
        &mut self,
        name: &str,
        numbers: impl IntoIterator<Item = (N, u64)>,
    ) {
        let section = self.0.entry(name.to_owned()).or_default();
        for (name, number) in numbers {
            *section.entry(name.into()).or_default() += number;
        }
    }

    /// Adds the numbers of another run.
    pub fn add(&mut self, other: &Self) {
        for (name, numbers) in &other.0 {
            let numbers = numbers.iter().map(|(name, n)| (name.as_str(), *n));
            self.section(name, numbers);
        }
    }

    /// Prints them, all at once. A failure to write changes nothing.
    pub fn tell(&self, how: StatsFormat) {
        let text = match how {
            StatsFormat::Json => serde_json::to_string(self).unwrap_or_default() + "\n",
            StatsFormat::Text => self.text(),
        };
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn text(&self) -> String {
        let mut out = Vec::new();
        for section in SECTIONS {
            let Some(numbers) = self.0.get(section) else {
                continue;
            };
            let mut numbers: Vec<_> = numbers.iter().filter(|(_, n)| **n > 0).collect();
            // The largest first: users look for it.
            numbers.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
            let rows: Vec<Vec<String>> = numbers
                .into_iter()
                .map(|(name, n)| vec![format!("  {name}"), format::number(*n)])
                .collect();
            // Writing into memory cannot fail.
            let _ = writeln!(out, "{}", section.replace('_', " "));
            let _ = format::table(&mut out, &[1], &rows);
        }
        String::from_utf8_lossy(&out).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_add_up_and_the_largest_comes_first() {
        let mut stats = Stats::default();
        stats.section("events", [("signal", 1), ("turn", 20)]);
        let mut sum = stats.clone();
        sum.add(&stats);
        assert_eq!(sum.text(), "events\n  turn    40\n  signal   2\n");
        let json = serde_json::to_string(&sum).unwrap();
        assert_eq!(json, r#"{"events":{"signal":2,"turn":40}}"#);
    }
}
