//! Makes a workload ready: finds its programs, makes its inputs, puts their paths into its
//! command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use relive_tests::needs::{SEARCH_PATH, find_tool};

use crate::inputs::Inputs;
use crate::table::{Action, Workload};

/// A workload that can run here.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Its row.
    pub workload: Workload,
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// File on standard input.
    pub stdin: Option<PathBuf>,
}

/// Prepares one workload.
///
/// # Errors
/// The missing program or file, in words.
pub fn prepare(workload: &Workload, inputs: &Inputs) -> Result<Ready, String> {
    let missing = |tool: &&&str| find_tool(tool).is_none();
    if let Some(tool) = workload.needs.iter().find(missing) {
        return Err(format!("{tool} is not installed"));
    }
    let (words, stdin) = match workload.action {
        Action::Command { argv, stdin } => (argv, stdin),
        Action::Redis { .. } => (&["redis-server"][..], None),
    };
    let file = |name: &str| name.strip_prefix('@').map(|name| inputs.path(name));
    let program = match file(words[0]) {
        Some(path) => path,
        None => tool(words[0]).ok_or_else(|| format!("{} is not installed", words[0]))?,
    };
    for input in workload.inputs {
        inputs.make(*input).map_err(|error| format!("{error:#}"))?;
    }
    let rest = words[1..]
        .iter()
        .map(|word| file(word).map_or_else(|| OsString::from(word), OsString::from));
    Ok(Ready {
        workload: *workload,
        argv: std::iter::once(program.into()).chain(rest).collect(),
        stdin: stdin.and_then(file),
    })
}

/// A program's path: on the search path, or where the C compiler keeps its own.
fn tool(name: &str) -> Option<PathBuf> {
    find_tool(name).or_else(|| {
        let mut gcc = Command::new(find_tool("gcc")?);
        gcc.env("PATH", SEARCH_PATH);
        let output = gcc.arg(format!("-print-prog-name={name}")).output().ok()?;
        let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        path.is_absolute().then_some(path)
    })
}
