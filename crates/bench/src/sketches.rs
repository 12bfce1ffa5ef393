//! What a sketch costs beside a serial recording: native, recorded serially and recorded as a sketch in turn.
//! Must never judge: limits are for the reader.

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
use crate::table::{SKETCHES, SketchBar, THREADED, WORKLOADS, Workload};

/// The workload of a name, among all.
fn workload(name: &str) -> Option<&'static Workload> {
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
    options: &Options,
    machine: &Machine,
    inputs: &Inputs,
    bench: &Bench,
) -> Result<bool> {
    let wanted = SKETCHES.iter().filter(|(name, _)| options.wants(name));
    let wanted: Vec<_> = wanted
        .filter_map(|(name, bar)| Some((workload(name)?, *bar)))
        .collect();
    if wanted.is_empty() {
        return Err(anyhow!(
            "no program with a limit for sketches has such a name"
        ));
    }
    let mut rows = Vec::new();
    for (workload, bar) in wanted {
        eprintln!("sketches: {}", workload.name);
        let row = match prepare(workload, inputs) {
            Ok(ready) => {
                // The first one translates the program, and does not count.
                let all = (0..=options.reps)
                    .map(|_| bench.repetition(&ready, &Way::RECORDINGS, &[], false));
                let all: Result<Vec<_>> = all.skip(1).collect();
                Row::of(workload, all?)
            }
            Err(why) => Row::missing(workload, why),
        };
        rows.push((row, bar));
    }
    let text = report(machine, options.reps, &rows);
    println!("{text}");
    if let Some(path) = &options.json {
        let all: Vec<&Row> = rows.iter().map(|(row, _)| row).collect();
        std::fs::write(named(path), serde_json::to_string_pretty(&all)? + "\n")?;
    }
    if let Some(path) = &options.page {
        page::write(&named(path), &[("sketches", text)])?;
    }
    Ok(rows.iter().all(|(row, _)| row.failures().is_empty()))
}

fn report(machine: &Machine, repetitions: u32, rows: &[(Row, SketchBar)]) -> String {
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
        "sketch CPU",
        "serial wall",
        "sketch wall",
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
            cpu(Way::Sketch),
            wall(Way::Record),
            wall(Way::Sketch),
            limit(row, *bar),
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
fn limit(row: &Row, bar: SketchBar) -> String {
    let cpu = |way| row.ratios.get(&way).map(|ratios| ratios.cpu.median);
    let (words, most, measured) = match bar {
        SketchBar::Cpu(most) => (format!("CPU {most:.2}"), Some(most), cpu(Way::Sketch)),
        SketchBar::Wall(most) => {
            let wall = row
                .ratios
                .get(&Way::Sketch)
                .map(|ratios| ratios.wall.median);
            (format!("wall {most:.2}"), Some(most), wall)
        }
        SketchBar::Serial => {
            // No dearer than that beyond its own spread.
            let least = row.ratios.get(&Way::Sketch).map(|ratios| ratios.cpu.least);
            ("serial CPU".to_owned(), cpu(Way::Record), least)
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

    #[test]
    fn each_limit_has_a_workload() {
        for (name, _) in SKETCHES {
            assert!(workload(name).is_some(), "{name}");
        }
        for threaded in THREADED {
            assert!(SKETCHES.iter().any(|(name, _)| *name == threaded.name));
        }
    }
}
