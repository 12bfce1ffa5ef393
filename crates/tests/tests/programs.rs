//! One trial per script of real programs, through every stage.

use libtest_mimic::{Completion, Failed, Trial};
use relive_tests::case::{Case, programs};
use relive_tests::needs::{Missing, missing};
use relive_tests::stage_table::{Stage, selected_by_env};
use relive_tests::stages::{Subject, run_all};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

const TMP: &str = env!("CARGO_TARGET_TMPDIR");

fn main() -> ExitCode {
    let args = relive_tests::arguments();
    let stages: Arc<[&Stage]> = match selected_by_env() {
        Ok(stages) => stages.into(),
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::FAILURE;
        }
    };
    let trials = programs().into_iter().map(|case| {
        let stages = Arc::clone(&stages);
        Trial::ignorable_test(format!("program::{}", case.name), move || {
            run(&case, &stages)
        })
    });
    libtest_mimic::run(&args, trials.collect()).exit_code()
}

fn run(case: &Case, stages: &[&Stage]) -> Result<Completion, Failed> {
    let mut header = case.header.clone()?;
    header.needs_tools.insert(0, "bash".into());
    match missing(&header) {
        Some(Missing::Skip(reason)) => return Ok(Completion::ignored_with(reason)),
        Some(Missing::Fail(reason)) => return Err(reason.into()),
        None => {}
    }
    let mut argv = vec!["/bin/bash".into(), case.path.clone().into_os_string()];
    argv.extend(header.args.iter().cloned());
    let subject = Subject {
        name: format!("program-{}", case.name),
        argv,
        header,
    };
    run_all(&subject, stages, &Path::new(TMP).join("work"))?;
    Ok(Completion::Completed)
}
