//! gdb's own recorder, on a tiny loop: it steps, so that a whole workload would take days.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result};
use relive_tests::needs::find_tool;
use serde::Serialize;

use crate::inputs::{Input, Inputs};
use crate::measure::Spec;
use crate::sample::LIMIT;

/// Rounds of the loop, of two instructions each.
const ROUNDS: u32 = 20_000;

/// The cost of gdb's recorder.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Gdb {
    /// Instructions recorded.
    pub instructions: u32,
    /// Seconds of CPU time for them.
    pub seconds: f64,
}

/// Records a loop with gdb's `record full`. `None` if gdb is not installed.
///
/// # Errors
/// It did not work.
pub fn gdb(inputs: &Inputs, folder: &Path) -> Result<Option<Gdb>> {
    let Some(gdb) = find_tool("gdb") else {
        return Ok(None);
    };
    inputs.make(Input::Program("countdown", "-O2"))?;
    std::fs::create_dir_all(folder)?;
    let seconds = |rounds: u32| -> Result<f64> {
        let mut argv: Vec<OsString> = vec![gdb.clone().into()];
        argv.extend(["-q", "-nx", "-batch"].map(OsString::from));
        for command in [
            "set debuginfod enabled off",
            "set confirm off",
            "set record full insn-number-max unlimited",
            "break loop_begins",
            "run",
            "record full",
            "break loop_ends",
            "continue",
            "info record",
            "kill",
        ] {
            argv.extend(["-ex", command].map(OsString::from));
        }
        argv.extend(["--args".into(), inputs.path("countdown").into()]);
        argv.push(rounds.to_string().into());
        let spec = Spec {
            argv,
            stdin: None,
            stdout: Some(folder.join("gdb-output")),
            stderr: folder.join("gdb-errors"),
            folder: folder.to_owned(),
        };
        let usage = spec.start()?.finish(LIMIT)?;
        let said = std::fs::read_to_string(folder.join("gdb-output"))?;
        let recorded = said
            .lines()
            .find_map(|line| line.strip_prefix("Log contains "))
            .and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok())
            .with_context(|| format!("gdb recorded nothing:\n{said}"))?;
        anyhow::ensure!(recorded >= 2 * rounds, "gdb recorded {recorded}:\n{said}");
        Ok(usage.cpu())
    };
    let (start, whole) = (seconds(1)?, seconds(ROUNDS)?);
    Ok(Some(Gdb {
        instructions: 2 * ROUNDS,
        seconds: whole - start,
    }))
}
