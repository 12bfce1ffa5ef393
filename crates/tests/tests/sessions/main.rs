//! One trial per scripted session: with gdb (`*.session`, see `relive_tests::session`), and with
//! the debug adapter (`*.dap`, see `relive_tests::dap_script`).

mod dap;
mod recordings;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Completion, Failed, Trial};
use relive_tests::session::Session;
use relive_tests::{command, crate_dir};

use recordings::{lacking, recording, spec};

/// Runs the session of a file.
type Run = fn(&Path) -> Result<Completion, Failed>;
/// Extensions of files, names of their trials, and functions that run them.
const KINDS: [(&str, &str, Run); 2] = [("session", "session", run), ("dap", "dap", dap::run)];

fn main() -> ExitCode {
    let args = relive_tests::arguments();
    let folder = crate_dir().join("sessions");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the sessions are there")
        .map(|entry| entry.expect("a folder can be read").path())
        .collect();
    paths.sort();
    let trials = paths
        .into_iter()
        .filter_map(|path| {
            let ending = path.extension()?.to_str()?;
            let (_, kind, run) = KINDS.into_iter().find(|k| k.0 == ending)?;
            let name = format!("{kind}::{}", path.file_stem()?.to_string_lossy());
            Some(Trial::ignorable_test(name, move || run(&path)))
        })
        .collect();
    libtest_mimic::run(&args, trials).exit_code()
}

fn run(path: &Path) -> Result<Completion, Failed> {
    let session = Session::parse(&fs::read_to_string(path)?)?;
    if let Some(lacking) = lacking(&session.guest)? {
        return Ok(lacking);
    }
    let trace = recording(&session.guest, session.gone)?;
    let output = converse(&session, &trace)?;
    session.compare(&output)?;
    Ok(Completion::Completed)
}

/// The output of gdb.
fn converse(session: &Session, trace: &Path) -> Result<String, String> {
    // Errors are answers too, in their place.
    let mut argv: Vec<OsString> = ["sh", "-c", r#"exec "$0" "$@" 2>&1"#]
        .map(OsString::from)
        .to_vec();
    argv.push(command::relive()?.into());
    argv.push("debug".into());
    argv.extend(session.options.iter().map(OsString::from));
    argv.push(trace.into());
    argv.extend(["--", "-nx", "-batch", "-iex", "set width 0"].map(OsString::from));
    let folder = crate_dir().join("sessions/guests");
    argv.extend([
        "-ex".into(),
        format!("directory {}", folder.display()).into(),
    ]);
    for (i, step) in session.steps.iter().enumerate() {
        argv.extend([
            "-ex".into(),
            format!("echo {}\\n", Session::marker(i)).into(),
        ]);
        argv.extend(["-ex".into(), OsString::from(&step.command)]);
    }
    let end = Session::marker(session.steps.len());
    argv.extend(["-ex".into(), format!("echo {end}\\n").into()]);
    let folder = trace.parent().ok_or("a trace lies in a folder")?;
    let outcome = spec(argv, folder).run()?;
    Ok(String::from_utf8_lossy(&outcome.stdout).into_owned())
}
