//! What a recording of threads on all cores costs beside a serial one: native, recorded serially and recorded so in turn,
//! as a sketch, with all accesses to memory in order, or with each epoch run again meanwhile. Must never judge: limits are for the reader.

use std::fmt::Write;

use anyhow::{Result, anyhow};

use crate::figures::Row;
use crate::inputs::Inputs;
use crate::machine::Machine;
use crate::modes::Way;
use crate::options::{Options, named};
use crate::page;
use crate::prepare::prepare;
use crate::report::{cell, strings, table};
use crate::samples::Bench;
use crate::table::{COHERENCE, CoresBar, SKETCHES, THREADED, UNIPARALLEL, WORKLOADS, Workload};

/// A way to record on all cores, with the programs that it is measured on.
pub struct CoresTable {
    way: Way,
    rows: &'static [(&'static str, CoresBar)],
    /// The part of the page.
    section: &'static str,
}

/// All of them.
pub const TABLES: [CoresTable; 3] = [
    CoresTable {
        way: Way::Sketch,
        rows: SKETCHES,
        section: "sketches",
    },
    CoresTable {
        way: Way::Coherence,
        rows: COHERENCE,
        section: "coherence",
    },
    CoresTable {
        way: Way::Uniparallel,
        rows: UNIPARALLEL,
        section: "uniparallel",
    },
];

/// The workload of a name, among all.
pub fn workload(name: &str) -> Option<&'static Workload> {
    WORKLOADS
        .iter()
        .chain(THREADED)
        .find(|workload| workload.name == name)
}

/// Measures the programs that the options name, prints a table, and puts it into a page if asked. Returns
/// whether all runs succeeded.
///
/// # Errors
/// Nothing to measure, or a file cannot be used.
pub fn execute(
    table: &CoresTable,
    options: &Options,
    machine: &Machine,
    inputs: &Inputs,
    bench: &Bench,
) -> Result<bool> {
    let wanted = table.rows.iter().filter(|(name, _)| options.wants(name));
    let wanted: Vec<_> = wanted
        .filter_map(|(name, bar)| Some((workload(name)?, *bar)))
        .collect();
    if wanted.is_empty() {
        return Err(anyhow!("no program that is measured so has such a name"));
    }
    let mut rows = Vec::new();
    for (workload, bar) in wanted {
        eprintln!("{}: {}", table.section, workload.name);
        let row = match prepare(workload, inputs) {
            Ok(ready) => {
                // The first one translates the program, and does not count.
                let all = (0..=options.reps)
                    .map(|_| bench.repetition(&ready, &[Way::Record, table.way], &[], false));
                let all: Result<Vec<_>> = all.skip(1).collect();
                Row::of(workload, all?)
            }
            Err(why) => Row::missing(workload, why),
        };
        rows.push((row, bar));
    }
    let text = report(table.way, machine, options.reps, &rows);
    println!("{text}");
    if let Some(path) = &options.json {
        let all: Vec<&Row> = rows.iter().map(|(row, _)| row).collect();
        std::fs::write(named(path), serde_json::to_string_pretty(&all)? + "\n")?;
    }
    if let Some(path) = &options.page {
        page::write(&named(path), &[(table.section, text)])?;
    }
    Ok(rows.iter().all(|(row, _)| row.failures().is_empty()))
}

fn report(way: Way, machine: &Machine, repetitions: u32, rows: &[(Row, CoresBar)]) -> String {
    let mut text = format!("{}.\n\n", machine.words());
    let _ = writeln!(
        text,
        "Ratios to the native run of the same repetition: median of {repetitions}, least and most in brackets. CPU \
         is user and system time of all processes, the recorder's too.\n"
    );
    let mut all = vec![strings(&[
        "workload",
        "native CPU, s",
        "serial CPU",
        &format!("{} CPU", way.name()),
        "serial wall",
        &format!("{} wall", way.name()),
        "at most",
    ])];
    for (row, bar) in rows {
        if let Some(why) = &row.missing {
            all.push(strings(&[row.name, "missing:", why, "", "", "", ""]));
            continue;
        }
        let of = |way| row.ratios.get(&way);
        let cpu = |way| cell(of(way).map(|ratios| ratios.cpu));
        let wall = |way| cell(of(way).map(|ratios| ratios.wall));
        all.push(vec![
            row.name.to_owned(),
            cell(row.native_cpu),
            cpu(Way::Record),
            cpu(way),
            wall(Way::Record),
            wall(way),
            limit(way, row, *bar),
        ]);
    }
    text += &table(&all);
    for (row, _) in rows {
        for (way, why) in row.failures() {
            let _ = writeln!(text, "\n{} failed in {way}: {why}", row.name);
        }
    }
    text
}

/// The limit in words, and whether it is met.
fn limit(way: Way, row: &Row, bar: CoresBar) -> String {
    let of = |way| row.ratios.get(&way);
    let (words, most, measured) = match bar {
        CoresBar::None => return String::new(),
        CoresBar::Cpu(most) => {
            let cpu = of(way).map(|ratios| ratios.cpu.median);
            (format!("CPU {most:.2}"), Some(most), cpu)
        }
        CoresBar::Wall(most) => {
            let wall = of(way).map(|ratios| ratios.wall.median);
            (format!("wall {most:.2}"), Some(most), wall)
        }
        CoresBar::Serial => {
            // No dearer than that beyond its own spread.
            let least = of(way).map(|ratios| ratios.cpu.least);
            let serial = of(Way::Record).map(|ratios| ratios.cpu.median);
            ("serial CPU".to_owned(), serial, least)
        }
    };
    match most.zip(measured) {
        None => words,
        Some((most, measured)) if measured <= most => format!("{words} met"),
        Some(_) => format!("{words} missed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::SPARE_CORES;

    #[test]
    fn each_limit_has_a_workload() {
        let rows = || TABLES.iter().flat_map(|table| table.rows);
        for (name, _) in rows() {
            assert!(workload(name).is_some(), "{name}");
        }
        for name in SPARE_CORES {
            assert!(workload(name).is_some(), "{name}");
        }
        for threaded in THREADED {
            assert!(rows().any(|(name, _)| *name == threaded.name));
        }
    }
}
