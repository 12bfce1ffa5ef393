//! Small programs with bugs that come out in few runs: `relive hunt` finds each, `relive explore --failing` does
//! from a run that passed, and the run that failed verifies. Every file in `bugs/` is a test of both. Some are hunted with
//! threads on all cores too, and `relive explore` makes the sketch of the run that failed exact.
//!
//! `RELIVE_HUNTS=N` looks for each bug N times (default 1), and then prints in which runs it came.

use libtest_mimic::{Failed, Trial};
use relive_tests::child::Spec;
use relive_tests::{command, crate_dir, needs::find_tool};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const TMP: &str = env!("CARGO_TARGET_TMPDIR");
/// Most runs of a hunt. A hunt that is as good as it was takes 60 in the worst median.
const RUNS: &str = "2000";

/// A search for a bug, in a folder with the program; the number of the run that failed.
type BugSearch = fn(&Path, &Path) -> Result<u32, String>;

const SEARCHES: [(&str, BugSearch); 2] = [("bugs", hunt), ("neighbours", explore)];

/// Programs of which a run on all cores fails soon: data races alone, of which a sketch has no order. They fail behind the
/// ends of their threads: a thread that its program's end kills may lack its last stores.
const SKETCHED: [&str; 3] = ["count_of_users", "lost_update", "same_number"];

fn main() -> ExitCode {
    let args = relive_tests::arguments();
    let hunts = std::env::var("RELIVE_HUNTS").map_or(Ok(1), |text| text.parse::<usize>());
    let Ok(hunts @ 1..) = hunts else {
        eprintln!("RELIVE_HUNTS must be a number, at least 1");
        return ExitCode::FAILURE;
    };
    let each = programs().into_iter();
    let trials = each.flat_map(|(name, source)| {
        let sketched: BugSearch = hunt_sketches;
        let sketched = SKETCHED.contains(&&*name).then_some(("sketches", sketched));
        let searches = SEARCHES.into_iter().chain(sketched);
        let trials = searches.map(|(kind, search)| {
            let (name, source) = (name.clone(), source.clone());
            Trial::test(format!("{kind}::{name}"), move || {
                find(kind, search, &name, &source, hunts).map_err(Failed::from)
            })
        });
        trials.collect::<Vec<_>>()
    });
    libtest_mimic::run(&args, trials.collect()).exit_code()
}

fn programs() -> Vec<(String, PathBuf)> {
    let files = fs::read_dir(crate_dir().join("bugs")).expect("the folder of the bugs is there");
    let mut programs: Vec<(String, PathBuf)> = files
        .map(|file| file.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            (name.into_owned(), path)
        })
        .collect();
    programs.sort();
    programs
}

fn find(
    kind: &str,
    search: BugSearch,
    name: &str,
    source: &Path,
    hunts: usize,
) -> Result<(), String> {
    let folder = Path::new(TMP).join(kind).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let program = folder.join(name);
    compile(source, &program)?;
    let mut runs: Vec<u32> = Vec::new();
    for _ in 0..hunts {
        runs.push(search(&folder, &program)?);
        relive(&folder, &["verify".into()], 0)?;
    }
    if hunts > 1 {
        runs.sort_unstable();
        let median = runs[(hunts - 1) / 2];
        println!("{kind}::{name}: median {median} of {runs:?}");
    }
    Ok(())
}

fn compile(source: &Path, program: &Path) -> Result<(), String> {
    let compiler = find_tool("gcc").ok_or("gcc is missing")?;
    let output = Command::new(compiler)
        .args(["-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror"])
        .arg("-I")
        .arg(crate_dir().join("bugs/include"))
        .arg("-o")
        .args([program, source])
        .output()
        .map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Hunts until a run fails; returns its number.
fn hunt(folder: &Path, program: &Path) -> Result<u32, String> {
    let words = ["hunt", "-n", RUNS, "--timeout", "3s"];
    let mut words: Vec<OsString> = words.map(OsString::from).to_vec();
    words.push(program.into());
    failed_run(&relive(folder, &words, 1)?)
}

/// Hunts with threads on all cores, and looks for the order of the run that failed; returns the number of its run.
fn hunt_sketches(folder: &Path, program: &Path) -> Result<u32, String> {
    let words = ["hunt", "--mode", "sketch", "-n", RUNS, "--timeout", "3s"];
    let mut words: Vec<OsString> = words.map(OsString::from).to_vec();
    words.push(program.into());
    let run = failed_run(&relive(folder, &words, 1)?)?;
    relive(folder, &["explore".into()], 0)?;
    Ok(run)
}

/// Looks for a failing neighbour of a run that passes; returns the number of the attempt.
fn explore(folder: &Path, program: &Path) -> Result<u32, String> {
    // Some fail now and then by themselves.
    let mut passes = Err("no run passes".to_owned());
    for _ in 0..20 {
        if passes.is_err() {
            passes = relive(folder, &["record".into(), program.into()], 0);
        }
    }
    passes?;
    let words = ["explore", "--failing", "-n", RUNS, "--timeout", "3s"];
    failed_run(&relive(folder, &words.map(OsString::from), 1)?)
}

fn failed_run(said: &str) -> Result<u32, String> {
    let run = said.strip_prefix("run ").and_then(|rest| {
        let (run, _) = rest.split_once(' ')?;
        run.parse().ok()
    });
    run.ok_or(format!("no run has failed: {said}"))
}

/// Runs the command in `folder`, which also holds its recordings; returns its output.
fn relive(folder: &Path, words: &[OsString], status: i32) -> Result<String, String> {
    let mut argv = vec![command::relive()?.into()];
    argv.extend_from_slice(words);
    let folder_of = |name: &str| folder.join(name).display().to_string();
    let env = vec![
        ("RELIVE_TRACE_DIR", folder_of("traces")),
        ("RELIVE_CACHE_DIR", folder_of("cache")),
    ];
    let spec = Spec {
        argv,
        env,
        dir: folder.to_owned(),
        stdin: None,
        timeout: Duration::from_secs(240),
    };
    let outcome = spec.run()?;
    match outcome.status.code() == Some(status) {
        true => Ok(String::from_utf8_lossy(&outcome.stdout).into_owned()),
        false => Err(format!("{outcome:?}")),
    }
}
