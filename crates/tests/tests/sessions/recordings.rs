//! Recordings of the guests of sessions, each made once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtest_mimic::Completion;
use relive_tests::child::Spec;
use relive_tests::needs::{Missing, find_tool, is_ci, missing_tool};
use relive_tests::{command, crate_dir};

const TMP: &str = env!("CARGO_TARGET_TMPDIR");
/// Limit on the time of a session or a recording; only a hang takes longer.
const LIMIT: Duration = Duration::from_secs(120);

/// Guests from this folder are recorded until they fail.
const EXAMPLES: &str = "examples/";

/// The compilers of the languages for debugging: extension, compiler, words.
const LANGUAGES: [(&str, &str, &[&str]); 4] = [
    ("c", "gcc", &["-g", "-O1", "-pthread", "-fno-inline"]),
    ("cc", "g++", &["-g", "-O0", "-pthread"]),
    (
        "rs",
        "rustc",
        &["-g", "-Cforce-frame-pointers=yes", "--edition=2024"],
    ),
    ("go", "go", &["build", "-gcflags=all=-N -l"]),
];

/// The recording of a guest, made once.
type Recordings = Mutex<BTreeMap<(String, bool), Arc<Mutex<Option<Recorded>>>>>;
static RECORDINGS: Recordings = Mutex::new(BTreeMap::new());

#[derive(Clone)]
struct Recorded(Result<PathBuf, String>);

/// Whether the compiler and the debugger for a session with a guest are here.
///
/// # Errors
/// It is not, and should be.
pub fn lacking(guest: &str) -> Result<Option<Completion>, String> {
    let compiler = language(guest)?.1;
    for tool in ["gdb", compiler] {
        if tool != "rustc" && find_tool(tool).is_none() {
            match missing_tool(tool, is_ci()) {
                Missing::Skip(reason) => return Ok(Some(Completion::ignored_with(reason))),
                Missing::Fail(reason) => return Err(reason),
            }
        }
    }
    Ok(None)
}

fn language(
    guest: &str,
) -> Result<&'static (&'static str, &'static str, &'static [&'static str]), String> {
    let extension = guest.rsplit('.').next().unwrap_or("");
    let found = LANGUAGES.iter().find(|l| l.0 == extension);
    found.ok_or_else(|| format!("{guest} is in no known language"))
}

/// The source of a guest.
pub fn source(guest: &str) -> PathBuf {
    match guest.starts_with(EXAMPLES) {
        true => crate_dir().join("../..").join(guest),
        false => crate_dir().join("sessions/guests").join(guest),
    }
}

/// The trace of a guest; the first caller makes it. Its folder is one for recordings, and it is the
/// latest there.
///
/// # Errors
/// It cannot be compiled or recorded.
pub fn recording(guest: &str, gone: bool) -> Result<PathBuf, String> {
    let mut all = RECORDINGS.lock().map_err(|e| e.to_string())?;
    let slot = Arc::clone(all.entry((guest.to_owned(), gone)).or_default());
    drop(all);
    let mut slot = slot.lock().map_err(|e| e.to_string())?;
    slot.get_or_insert_with(|| Recorded(record(guest, gone)))
        .0
        .clone()
}

fn record(guest: &str, gone: bool) -> Result<PathBuf, String> {
    let told = |e: std::io::Error| e.to_string();
    let (_, compiler, words) = language(guest)?;
    let hunted = guest.starts_with(EXAMPLES);
    let name = format!(
        "{}{}",
        guest.replace(['.', '/'], "_"),
        if gone { "_gone" } else { "" }
    );
    let folder = Path::new(TMP).join("sessions").join(&name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(told)?;
    let program = folder.join(&name);
    let tool = find_tool(compiler).unwrap_or_else(|| PathBuf::from(compiler));
    let compiled = Command::new(tool)
        .args(*words)
        // A race needs the reads and writes of the source.
        .args(hunted.then_some("-O0"))
        .arg("-o")
        .args([&program, &source(guest)])
        .output()
        .map_err(told)?;
    if !compiled.status.success() {
        return Err(String::from_utf8_lossy(&compiled.stderr).into_owned());
    }
    if hunted {
        let argv = [
            command::relive()?.as_os_str(),
            "hunt".as_ref(),
            program.as_os_str(),
        ];
        let mut hunt = spec(argv.map(OsString::from).to_vec(), &folder);
        let folder = folder.display().to_string();
        hunt.env.push(("RELIVE_TRACE_DIR", folder.clone()));
        let outcome = hunt.run()?;
        return match outcome.status.code() {
            Some(1) => fs::canonicalize(Path::new(&folder).join("latest")).map_err(told),
            _ => Err(String::from_utf8_lossy(&outcome.stderr).into_owned()),
        };
    }
    let trace = folder.join("trace");
    let argv: Vec<OsString> = [
        command::relive()?.as_os_str(),
        "record".as_ref(),
        "-o".as_ref(),
        trace.as_os_str(),
        program.as_os_str(),
    ]
    .map(OsString::from)
    .to_vec();
    let outcome = spec(argv, &folder).run()?;
    if outcome.status.code() == Some(125) {
        return Err(String::from_utf8_lossy(&outcome.stderr).into_owned());
    }
    symlink("trace", folder.join("latest")).map_err(told)?;
    if gone {
        fs::remove_file(&program).map_err(told)?;
    }
    Ok(trace)
}

/// A command of a session.
pub fn spec(argv: Vec<OsString>, dir: &Path) -> Spec {
    Spec {
        argv,
        env: vec![
            ("HOME", "/nonexistent".to_owned()),
            ("DEBUGINFOD_URLS", String::new()),
        ],
        dir: dir.to_owned(),
        stdin: None,
        timeout: LIMIT,
    }
}
