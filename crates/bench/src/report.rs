//! The figures as tables, readable in a terminal and as Markdown alike.

use std::fmt::Write;

use crate::figures::{Row, Spread, mean};
use crate::machine::Machine;
use crate::modes::Way;
use crate::peers::Gdb;
use crate::samples::NOT_INSTALLED;
use crate::table::WORKLOADS;
use crate::travel;

/// All findings of one run of the benchmark.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Findings {
    /// The machine.
    pub machine: Machine,
    /// The number of repetitions.
    pub repetitions: u32,
    /// Bytes up to which figures of memory are the benchmark's own.
    pub memory_floor: u64,
    /// The rows of the workloads.
    pub workloads: Vec<Row>,
    /// Going back in recordings.
    pub travel: Vec<travel::Row>,
    /// gdb's recorder: nothing if it was not requested or is not installed, or why it failed.
    pub gdb: Option<Result<Gdb, String>>,
}

/// The whole report.
pub fn report(findings: &Findings) -> String {
    let rows = &findings.workloads;
    let mut text = format!("{}.\n", findings.machine.words());
    let _ = writeln!(text, "{}.\n", findings.machine.programs.join("; "));
    let _ = writeln!(
        text,
        "Ratios to the native run of the same repetition: median of {}, least and most in \
         brackets. CPU is user and system time of all processes, the recorder's too.\n",
        match findings.repetitions {
            1 => "one repetition".to_owned(),
            n => format!("{n} repetitions"),
        }
    );
    text += &table(&ratio_table(rows));
    text += &means(rows);
    text += "\nRecordings and memory. *Given by calls* is what system calls wrote into the \
             program's memory, uncompressed, each time counted; beside the copies of mapped files a \
             trace should hold no more (redis, git-status and tar). Input is what was read from \
             files, each once; tapes are the rest. \
             Memory is that of the largest process.\n\n";
    text += &table(&size_table(findings));
    text += &peers(findings);
    for row in rows {
        for (way, why) in row.failures() {
            if why != NOT_INSTALLED {
                let _ = writeln!(text, "\n{} failed in {way}: {}", row.name, shorten(why));
            }
        }
    }
    text
}

/// The times of going back; nothing if they were not measured.
pub fn travel_report(findings: &Findings) -> Option<String> {
    if findings.travel.is_empty() {
        return None;
    }
    let mut text = format!("{}.\n\n", findings.machine.words());
    text += &table(&travel::cells(&findings.travel));
    Some(text)
}

/// A median with its least and most; a dash for none.
pub fn cell(spread: Option<Spread>) -> String {
    match spread {
        None => "–".to_owned(),
        Some(Spread {
            median,
            least,
            most,
        }) if least == most => format!("{median:.2}"),
        Some(Spread {
            median,
            least,
            most,
        }) => format!("{median:.2} ({least:.2}–{most:.2})"),
    }
}

fn ratio_table(rows: &[Row]) -> Vec<Vec<String>> {
    let mut all = vec![strings(&[
        "workload",
        "native CPU, s",
        "run CPU",
        "record CPU",
        "bar",
        "record wall",
        "replay CPU",
        "replay wall / record wall",
    ])];
    for row in rows {
        if let Some(why) = &row.missing {
            all.push(strings(&[row.name, "missing:", why, "", "", "", "", ""]));
            continue;
        }
        let failed = row.failures();
        let of = |way: Way, wall: bool| match row.ratios.get(&way) {
            Some(ratios) => cell(Some(if wall { ratios.wall } else { ratios.cpu })),
            None if failed.iter().any(|(name, _)| *name == way.name()) => "failed".to_owned(),
            None => "–".to_owned(),
        };
        all.push(vec![
            row.name.to_owned(),
            row.native_cpu
                .map_or("failed".to_owned(), |cpu| format!("{:.2}", cpu.median)),
            of(Way::Run, false),
            of(Way::Record, false),
            bar(row),
            of(Way::Record, true),
            of(Way::Replay, false),
            cell(row.replay_over_record),
        ]);
    }
    all
}

/// The bar, and whether it is met.
fn bar(row: &Row) -> String {
    if row.in_mean {
        return "in the mean".to_owned();
    }
    let measured = match row.throughput.get(&Way::Record) {
        Some(kept) => Some(1.0 / kept.median),
        None => row.ratios.get(&Way::Record).map(|ratios| ratios.cpu.median),
    };
    against(measured, row.bar)
}

/// A bar, and whether the measurement meets it.
fn against(measured: Option<f64>, bar: f64) -> String {
    let word = match measured {
        None => "",
        Some(ratio) if ratio <= bar => " met",
        Some(_) => " missed",
    };
    format!("{bar:.2}{word}")
}

fn means(rows: &[Row]) -> String {
    let names: Vec<&str> = rows
        .iter()
        .filter(|row| row.in_mean)
        .map(|row| row.name)
        .collect();
    // The mean of some workloads has no bar.
    let all = names.len() == WORKLOADS.iter().filter(|w| w.in_mean).count();
    let mut text = String::new();
    for way in Way::OWN {
        if let Some(mean) = mean(rows, way) {
            let bar = match rows.iter().find(|row| row.in_mean) {
                Some(row) if all && way == Way::Record => {
                    format!(" ({})", against(Some(mean), row.bar))
                }
                _ => String::new(),
            };
            let _ = writeln!(
                text,
                "\nGeometric mean of CPU ratios over {}, {}: **{mean:.2}**{bar}",
                names.join(", "),
                way.name()
            );
        }
    }
    for row in rows {
        for (way, kept) in &row.throughput {
            let _ = writeln!(
                text,
                "\nThroughput kept by {}, {}: **{:.0} %** ({:.0}–{:.0} %)",
                row.name,
                way.name(),
                100.0 * kept.median,
                100.0 * kept.least,
                100.0 * kept.most
            );
        }
    }
    text
}

fn size_table(findings: &Findings) -> Vec<Vec<String>> {
    let mut all = vec![strings(&[
        "workload",
        "given by calls, MiB",
        "trace, MiB",
        "mapped files in it, MiB",
        "input in it, MiB",
        "tapes in it, MiB",
        "events",
        "tapes, bytes per event",
        "tapes, MiB per second",
        "native memory, MiB",
        "record memory, MiB",
        "verify",
    ])];
    let mib = |bytes: f64| format!("{:.2}", bytes / f64::from(1 << 20));
    for row in findings
        .workloads
        .iter()
        .filter(|row| row.missing.is_none())
    {
        let mut cells = vec![row.name.to_owned()];
        match row.trace() {
            None => cells.extend(std::iter::repeat_n("–".to_owned(), 8)),
            Some(trace) => {
                let tapes = trace.tape_bytes as f64;
                cells.extend([
                    mib(trace.given_bytes as f64),
                    mib(trace.bytes as f64),
                    mib(trace.file_bytes as f64),
                    mib(trace.input_bytes as f64),
                    mib(tapes),
                    trace.events.to_string(),
                    format!("{:.1}", tapes / trace.events.max(1) as f64),
                    mib(tapes / trace.seconds.max(1e-9)),
                ]);
            }
        }
        for way in [Way::Native, Way::Record] {
            let floor = findings.memory_floor as f64;
            cells.push(row.peak(way).map_or("–".to_owned(), |bytes| {
                let sign = if bytes <= floor { "≤" } else { "" };
                format!("{sign}{:.0}", bytes.max(floor) / f64::from(1 << 20))
            }));
        }
        let verified = row
            .repetitions
            .iter()
            .find_map(|repetition| repetition.verified.as_ref());
        cells.push(match verified {
            None => "–".to_owned(),
            Some(Ok(())) => "passed".to_owned(),
            Some(Err(_)) => "failed".to_owned(),
        });
        all.push(cells);
    }
    all
}

fn peers(findings: &Findings) -> String {
    let mut all = vec![strings(&[
        "workload",
        "qemu-user CPU",
        "valgrind --tool=none CPU",
    ])];
    for row in &findings.workloads {
        if Way::PEERS.iter().any(|way| row.ratios.contains_key(way)) {
            let of = |way| cell(row.ratios.get(&way).map(|ratios| ratios.cpu));
            all.push(vec![row.name.to_owned(), of(Way::Qemu), of(Way::Valgrind)]);
        }
    }
    let mut text = String::new();
    if all.len() > 1 {
        text += "\nOther translators, on the programs that start no others:\n\n";
        text += &table(&all);
    }
    match &findings.gdb {
        None => {}
        Some(Err(why)) => {
            let _ = writeln!(text, "\ngdb's `record full` failed: {}", shorten(why));
        }
        Some(Ok(gdb)) => {
            let each = gdb.seconds / f64::from(gdb.instructions);
            let _ = writeln!(
                text,
                "\ngdb's `record full` takes {:.1} µs of CPU time for each instruction of a loop \
                 of two instructions ({} instructions in {:.2} s).",
                each * 1e6,
                gdb.instructions,
                gdb.seconds
            );
        }
    }
    text
}

/// The cells of a row of [`table`].
pub fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The first lines of a message, in one.
fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(400) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// A Markdown table with aligned columns; the first row is its head.
pub fn table(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, &width)| format!("{cell:width$}"))
            .collect();
        let _ = writeln!(text, "| {} |", line.join(" | "));
        if number == 0 {
            let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
            let _ = writeln!(text, "| {} |", rule.join(" | "));
        }
    }
    text
}
