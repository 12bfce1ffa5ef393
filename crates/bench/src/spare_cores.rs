//! What spare cores give a uniparallel recording: measured on the cores that there are, computed for those that there are not, and held against a
//! real run where the machine has them. Must never show a computed time as a measured one.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;

use crate::cores::workload;
use crate::epoch_queue::{TimedEpoch, growing, seconds};
use crate::figures::Spread;
use crate::inputs::Inputs;
use crate::machine::Machine;
use crate::modes::Way;
use crate::options::{Options, named};
use crate::page;
use crate::prepare::{Ready, prepare};
use crate::report::{cell, strings, table};
use crate::sample::LIMIT;
use crate::samples::{Bench, NOT_INSTALLED};
use crate::table::{Action, SPARE_CORES, Workload};

/// The part of the page.
const SECTION: &str = "spare-cores";
/// Threads, each with a core, and a spare one.
const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Seconds of the native run that is computed.
const MINUTE: f64 = 60.0;

/// What is known of a workload.
struct Measured {
    native: f64,
    /// Cores that it uses by itself.
    cores: f64,
    /// Seconds of its recording while nothing is run again.
    recorded: f64,
    /// CPU seconds of each of its epochs, run again.
    again: Vec<f64>,
    /// CPU seconds of what goes on beside the program while it is recorded: session images are written, the tapes too.
    beside: f64,
    /// Seconds in which they are put together.
    joining: f64,
    /// Seconds of starts and ends.
    rest: f64,
    /// A real run, if the machine has the cores.
    real: Option<RealRun>,
}

/// A run with spare cores.
struct RealRun {
    wall: f64,
    /// The wall time of two native runs at the same time over that of one: cores of virtual machines may be halves of one.
    two: f64,
}

/// A part of what `relive info --json` says.
#[derive(Deserialize)]
struct Info {
    exact: bool,
    wall_ms: u64,
    found_epochs: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    cpu_us: u64,
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
    let wanted = SPARE_CORES.iter().filter(|name| options.wants(name));
    let wanted: Vec<&Workload> = wanted.filter_map(|name| workload(name)).collect();
    if wanted.is_empty() {
        return Err(anyhow!("no program that is measured so has such a name"));
    }
    let mut rows = vec![header()];
    let mut failures = Vec::new();
    for workload in wanted {
        eprintln!("{SECTION}: {}", workload.name);
        let measured = match prepare(workload, inputs) {
            Ok(ready) => {
                // The first one translates the program, and does not count.
                let all = (0..=options.reps).map(|_| measure(&ready, machine, bench));
                all.skip(1).collect::<Result<Vec<_>>>()
            }
            Err(why) => Err(anyhow!(why)),
        };
        match measured {
            Ok(measured) => rows.push(row(workload, machine, &measured)),
            Err(why) => failures.push(format!("\n{} failed: {why:#}", workload.name)),
        }
    }
    let mut text = format!("{}.\n\n", machine.words());
    let _ = writeln!(
        text,
        "Median of {}, least and most in brackets.\n",
        options.reps
    );
    text += &table(&rows);
    failures.iter().for_each(|failure| text += failure);
    println!("{text}");
    if let Some(path) = &options.page {
        page::write(&named(path), &[(SECTION, text)])?;
    }
    Ok(failures.is_empty())
}

fn header() -> Vec<String> {
    let mut header = strings(&[
        "workload",
        "native wall, s",
        "cores it uses",
        "recorded, alone",
        "run again, CPU",
        "images, CPU",
    ]);
    header.extend(THREADS.map(|threads| format!("{threads}+{threads}")));
    header.extend(strings(&[
        "two at once",
        "this run, computed",
        "this run, measured",
    ]));
    header
}

fn row(workload: &Workload, machine: &Machine, all: &[Measured]) -> Vec<String> {
    let of =
        |number: &dyn Fn(&Measured) -> Option<f64>| cell(Spread::of(all.iter().filter_map(number)));
    let mut row = vec![
        workload.name.to_owned(),
        of(&|m| Some(m.native)),
        of(&|m| Some(m.cores)),
        of(&|m| Some(m.recorded / m.native)),
        of(&|m| Some(m.again.iter().sum::<f64>() / (m.native * m.cores))),
        of(&|m| Some(m.beside / (m.native * m.cores))),
    ];
    row.extend(THREADS.map(|threads| of(&|m| Some(m.minute(threads)))));
    row.push(of(&|m| Some(m.real.as_ref()?.two)));
    row.push(of(&|m| {
        let run = m.this_run(spare(machine, m)?);
        Some(run * m.real.as_ref()?.two)
    }));
    row.push(of(&|m| Some(m.real.as_ref()?.wall / m.native)));
    row
}

/// Cores of this machine beside those that a program uses, if it has as many.
fn spare(machine: &Machine, measured: &Measured) -> Option<usize> {
    let own = measured.cores.round().max(1.0) as usize;
    machine.cores.checked_sub(own).filter(|spare| *spare >= own)
}

impl Measured {
    /// Wall time over native of a run of a minute, natively, with so many threads and as many spare cores: each thread does as much as
    /// one did in this one.
    fn minute(&self, threads: usize) -> f64 {
        let spare = self.again.iter().sum::<f64>() + self.beside;
        let rate = spare / (self.recorded * self.cores);
        let times = MINUTE / self.native;
        let epochs = growing(self.recorded * times, rate * threads as f64);
        (seconds(&epochs, threads) + self.joining * times + self.rest) / MINUTE
    }

    /// The same of this run with its own threads.
    fn this_run(&self, spare: usize) -> f64 {
        let mut epochs = growing(self.recorded, 0.0);
        // The last one is what is left: a stretch in which nothing is logged is one epoch, however long.
        epochs.truncate(self.again.len() - 1);
        for (epoch, again) in epochs.iter_mut().zip(&self.again) {
            epoch.again = *again;
        }
        let run: f64 = epochs.iter().map(|epoch| epoch.run).sum();
        epochs.push(TimedEpoch {
            run: self.recorded - run,
            again: self.again[epochs.len()..].iter().sum(),
        });
        for epoch in &mut epochs {
            epoch.again += self.beside * epoch.run / self.recorded;
        }
        (seconds(&epochs, spare) + self.joining + self.rest) / self.native
    }
}

fn measure(ready: &Ready, machine: &Machine, bench: &Bench) -> Result<Measured> {
    ensure!(
        matches!(ready.workload.action, Action::Command { .. }) && ready.workload.repeat == 1,
        "not one run of a command"
    );
    bench.empty()?;
    let run = |way: Way, options: &[&str]| {
        let trace = bench.scratch.join(way.name());
        let mut spec = bench.spec(ready, way, &trace).context(NOT_INSTALLED)?;
        // Behind `relive record`.
        let place = 2.min(spec.argv.len());
        let options = options.iter().map(OsString::from);
        spec.argv.splice(place..place, options);
        spec.start()?.finish(LIMIT)
    };
    let native = run(Way::Native, &[])?;
    let alone = run(Way::Uniparallel, &["--jobs", "0", "--stats=json"])?;
    let info = info(&bench.relive, &bench.scratch.join(Way::Uniparallel.name()))?;
    let joining = joining(&bench.scratch.join("errors"))?;
    ensure!(info.exact, "the order of its threads is not found");
    let again: Vec<f64> = info
        .found_epochs
        .iter()
        .map(|epoch| epoch.cpu_us as f64 / 1e6)
        .collect();
    ensure!(!again.is_empty(), "it has no epochs");
    let recorded = info.wall_ms as f64 / 1e3;
    let searches: f64 = again.iter().sum();
    let cores = (native.cpu() / native.wall).max(1.0);
    let at_once: Vec<_> = again
        .iter()
        .map(|&again| TimedEpoch { run: 0.0, again })
        .collect();
    let mut measured = Measured {
        native: native.wall,
        cores,
        recorded,
        beside: (alone.cpu() - searches - recorded * cores - joining).max(0.0),
        joining,
        rest: (alone.wall - recorded - joining - seconds(&at_once, machine.cores)).max(0.0),
        again,
        real: None,
    };
    if spare(machine, &measured).is_some() {
        bench.empty()?;
        let wall = run(Way::Uniparallel, &[])?.wall;
        let spec = bench
            .spec(ready, Way::Native, Path::new(""))
            .context(NOT_INSTALLED)?;
        let [one, other] = [spec.start()?, spec.start()?];
        let walls = [one.finish(LIMIT)?.wall, other.finish(LIMIT)?.wall];
        measured.real = Some(RealRun {
            wall,
            two: (walls[0].max(walls[1]) / native.wall).max(1.0),
        });
    }
    Ok(measured)
}

/// Seconds in which epochs were put together, from a file that ends with counters.
fn joining(errors: &Path) -> Result<f64> {
    let text = std::fs::read_to_string(errors)?;
    let line = text.lines().last().context("no counters")?;
    let stats: serde_json::Value = serde_json::from_str(line)?;
    let time = stats["epochs"]["milliseconds of putting them together"].as_f64();
    Ok(time.context("no counters of epochs")? / 1e3)
}

fn info(relive: &Path, trace: &Path) -> Result<Info> {
    let mut command = Command::new(relive);
    command.arg("info").arg("--json").arg(trace);
    let output = command.output().context("relive info")?;
    ensure!(output.status.success(), "relive info: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}
