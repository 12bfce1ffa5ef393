//! One trial per guest and link variant, through every stage.

use libtest_mimic::{Completion, Failed, Trial};
use relive_tests::case::{Case, guests};
use relive_tests::compile::{CompileError, compile};
use relive_tests::header::{Header, Link};
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
    let mut trials = Vec::new();
    for case in guests() {
        for link in case.links() {
            let (case, stages) = (case.clone(), Arc::clone(&stages));
            let trial =
                Trial::ignorable_test(trial_name(&case, link), move || run(&case, link, &stages));
            trials.push(trial);
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}

fn trial_name(case: &Case, link: Link) -> String {
    match case.links().len() {
        1 => format!("guest::{}", case.name),
        _ => format!("guest::{}::{}", case.name, link.word()),
    }
}

fn run(case: &Case, link: Link, stages: &[&Stage]) -> Result<Completion, Failed> {
    let header: Header = case.header.clone()?;
    match missing(&header) {
        Some(Missing::Skip(reason)) => return Ok(Completion::ignored_with(reason)),
        Some(Missing::Fail(reason)) => return Err(reason.into()),
        None => {}
    }
    let program = match compile(&case.path, &header, link, &Path::new(TMP).join("guests")) {
        Ok(program) => program,
        Err(CompileError::NoCompiler(Missing::Skip(reason))) => {
            return Ok(Completion::ignored_with(reason));
        }
        Err(CompileError::NoCompiler(Missing::Fail(reason))) => return Err(reason.into()),
        Err(error) => return Err(format!("stage compile: {error}").into()),
    };
    let mut argv = vec![program.into_os_string()];
    argv.extend(header.args.iter().cloned());
    let subject = Subject {
        name: format!("guest-{}-{}", case.name, link.word()),
        argv,
        header,
    };
    run_all(&subject, stages, &Path::new(TMP).join("work"))?;
    Ok(Completion::Completed)
}
