//! One run of the benchmark, from the command line to the report.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use relive_tests::command;

use crate::against;
use crate::cores;
use crate::figures::Row;
use crate::inputs::Inputs;
use crate::machine::Machine;
use crate::measure;
use crate::modes::Way;
use crate::options::{Options, named};
use crate::page;
use crate::peers;
use crate::prepare::prepare;
use crate::report::{Findings, report, travel_report};
use crate::samples::{Bench, NOT_INSTALLED, Repetition};
use crate::spare_cores;
use crate::table::{WORKLOADS, Workload};
use crate::travel::{self, TRIPS, Trip};

/// Takes the measurements that the options ask for, prints and writes the results. Returns whether
/// all runs succeeded; a workload that is missing here is not a failure.
///
/// # Errors
/// There is no `relive` command, nothing to measure, or a file cannot be written.
pub fn execute(options: &Options, folder: &Path) -> Result<bool> {
    if options.list {
        print!("{}", page::list());
        return Ok(true);
    }
    relive_tests::keep_descriptors_from_children()?;
    let relive = command::relive().map_err(|text| anyhow!("{text}"))?;
    let machine = Machine::here(relive);
    let inputs = Inputs::in_folder(&folder.join("inputs"))?;
    let bench = Bench {
        relive: relive.to_owned(),
        scratch: folder.join("scratch"),
    };
    let wanted = [options.sketches, options.coherence, options.uniparallel];
    if let Some((_, table)) = wanted
        .iter()
        .zip(&cores::TABLES)
        .find(|(wanted, _)| **wanted)
    {
        return cores::execute(table, options, &machine, &inputs, &bench);
    }
    if options.spare_cores {
        return spare_cores::execute(options, &machine, &inputs, &bench);
    }
    let wanted: Vec<&Workload> = WORKLOADS
        .iter()
        .filter(|workload| options.wants(workload.name))
        .collect();
    let trips: Vec<&Trip> = TRIPS.iter().filter(|t| options.wants(t.name)).collect();
    if wanted.is_empty() && trips.is_empty() {
        return Err(anyhow!("no workload has such a name; --list shows all"));
    }
    if let Some(other) = &options.against {
        return against::execute(options, relive, &named(other), &wanted, &inputs, folder);
    }
    let rows = measure_all(options, &wanted, &inputs, &bench)?;
    let gdb = (options.peer_reps > 0 && wanted.len() == WORKLOADS.len())
        .then(|| peers::gdb(&inputs, &bench.scratch).map_err(|error| format!("{error:#}")))
        .and_then(Result::transpose);
    let travel = trips
        .iter()
        .map(|trip| {
            eprintln!("going back: {}", trip.name);
            travel::measure(trip, &inputs, &bench)
        })
        .collect();
    let findings = Findings {
        machine,
        travel,
        repetitions: options.reps,
        memory_floor: measure::own_peak(),
        workloads: rows,
        gdb,
    };
    finish(options, &findings)
}

fn measure_all(
    options: &Options,
    wanted: &[&Workload],
    inputs: &Inputs,
    bench: &Bench,
) -> Result<Vec<Row>> {
    let ready: Vec<_> = wanted
        .iter()
        .map(|workload| prepare(workload, inputs))
        .collect();
    let mut repetitions: Vec<Vec<Repetition>> = vec![Vec::new(); wanted.len()];
    for number in 0..options.reps {
        for (workload, done) in ready.iter().zip(&mut repetitions) {
            let Ok(workload) = workload else { continue };
            eprintln!(
                "repetition {} of {}: {}",
                number + 1,
                options.reps,
                workload.workload.name
            );
            let peers: &[Way] = match number < options.peer_reps && workload.workload.peers {
                true => &Way::PEERS,
                false => &[],
            };
            let verify = options.verify && number == 0;
            done.push(bench.repetition(workload, &Way::OWN, peers, verify)?);
        }
    }
    let rows = wanted.iter().zip(ready).zip(repetitions);
    Ok(rows
        .map(|((workload, ready), repetitions)| match ready {
            Ok(_) => Row::of(workload, repetitions),
            Err(why) => Row::missing(workload, why),
        })
        .collect())
}

fn finish(options: &Options, findings: &Findings) -> Result<bool> {
    let mut parts: Vec<(&str, String)> = vec![("workloads", page::list())];
    if !findings.workloads.is_empty() {
        parts.push(("figures", report(findings)));
    }
    parts.extend(travel_report(findings).map(|text| ("travel", text)));
    for (_, text) in &parts[1..] {
        println!("{text}");
    }
    if let Some(path) = &options.json {
        let json = serde_json::to_string_pretty(findings)?;
        std::fs::write(named(path), json + "\n").with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &options.page {
        page::write(&named(path), &parts)?;
    }
    let failed = findings
        .workloads
        .iter()
        .flat_map(Row::failures)
        .any(|(_, why)| why != NOT_INSTALLED);
    let lost = findings.travel.iter().any(|row| row.times.is_err());
    Ok(!failed && !lost && !matches!(findings.gdb, Some(Err(_))))
}
