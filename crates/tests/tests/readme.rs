//! The README's session with gdb is true: its commands are typed, on a recording made with its
//! commands, and the answers are those that it shows.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use relive_tests::child::Spec;
use relive_tests::needs::{Missing, SEARCH_PATH, find_tool, is_ci, missing_tool};
use relive_tests::readme::Example;
use relive_tests::session::Session;
use relive_tests::{command, crate_dir};

const HEADING: &str = "From a crash to the write that caused it";
/// Limit on the time of a hunt or a session; only a hang takes longer.
const LIMIT: Duration = Duration::from_secs(240);

#[test]
fn the_session_in_the_readme() {
    for tool in ["cc", "gdb"] {
        if find_tool(tool).is_none() {
            match missing_tool(tool, is_ci()) {
                Missing::Skip(why) => return eprintln!("{why}"),
                Missing::Fail(why) => panic!("{why}"),
            }
        }
    }
    let root = crate_dir().join("../..");
    let page = fs::read_to_string(root.join("README.md")).unwrap();
    let example = Example::of(&page, HEADING).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("bin")).unwrap();
    symlink(command::relive().unwrap(), folder.join("bin/relive")).unwrap();
    symlink(root.join("examples"), folder.join("examples")).unwrap();
    for line in &example.commands {
        let outcome = shell(&folder, line, None);
        // A hunt that finds a failure ends with status 1.
        let good = if line.contains("hunt") { 1 } else { 0 };
        assert_eq!(outcome.0, Some(good), "{line}: {}", outcome.1);
    }
    let options = example.session.options.join(" ");
    let line = format!(
        "relive debug {options} -- -nx -iex 'set width 0' -iex 'set prompt' -iex 'echo {}\\n'",
        Session::marker(0)
    );
    let mut typed = String::new();
    for (i, step) in example.session.steps.iter().enumerate().skip(1) {
        typed += &format!("echo {}\\n\n{}\n", Session::marker(i), step.command);
    }
    let end = Session::marker(example.session.steps.len());
    typed += &format!("echo {end}\\n\n");
    let (_, output) = shell(&folder, &line, Some(typed));
    example.session.compare(&output).unwrap();
}

/// Runs a line in a folder; its exit code and all that it writes.
fn shell(folder: &Path, line: &str, stdin: Option<String>) -> (Option<i32>, String) {
    let argv = ["sh", "-c", &format!("exec 2>&1; {line}")].map(OsString::from);
    let spec = Spec {
        argv: argv.to_vec(),
        env: vec![
            (
                "PATH",
                format!("{}:{SEARCH_PATH}", folder.join("bin").display()),
            ),
            ("HOME", folder.display().to_string()),
            (
                "RELIVE_TRACE_DIR",
                folder.join("traces").display().to_string(),
            ),
            ("DEBUGINFOD_URLS", String::new()),
        ],
        dir: folder.to_owned(),
        stdin: stdin.map(String::into_bytes),
        timeout: LIMIT,
    };
    let outcome = spec.run().unwrap();
    let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
    (outcome.status.code(), text)
}
