//! Random programs with threads, signals, children and shared memory (`guests/torture.c`), one for
//! each seed: recorded, replayed and verified, some with one-instruction fragments, some with a
//! chaotic schedule.
//!
//! `RELIVE_TORTURE=N` sets the number of seeds (default 8), `RELIVE_TORTURE_SEED` the first one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use relive_tests::case::guests;
use relive_tests::child::{Outcome, Spec};
use relive_tests::command;
use relive_tests::compare::{check_expected, check_same};
use relive_tests::compile::compile;
use relive_tests::header::Header;
use relive_tests::needs::{is_ci, missing_tool};

const TMP: &str = env!("CARGO_TARGET_TMPDIR");

fn variable(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|e| panic!("{name}={text:?}: {e}")),
        Err(_) => otherwise,
    }
}

struct Torture {
    program: PathBuf,
    header: Header,
    folder: PathBuf,
}

impl Torture {
    fn run(&self, words: &[OsString], tiny: bool) -> Result<Outcome, String> {
        let mut argv = vec![command::relive()?.into()];
        argv.extend(words.iter().cloned());
        let cache = self.folder.join("cache").display().to_string();
        let mut env = vec![("RELIVE_CACHE_DIR", cache)];
        if tiny {
            env.push(("RELIVE_FRAGMENT_INSNS", "1".to_owned()));
        }
        let spec = Spec {
            argv,
            env,
            dir: self.folder.clone(),
            stdin: None,
            timeout: self.header.timeout,
        };
        spec.run()
    }

    /// All checks with one seed.
    fn seed(&self, seed: u64) -> Result<(), String> {
        let trace = self.folder.join(format!("trace-{seed}"));
        let _ = std::fs::remove_dir_all(&trace);
        let mut record: Vec<OsString> = vec!["record".into(), "-o".into(), trace.clone().into()];
        if seed % 3 == 1 {
            record.push(format!("--chaos={seed}").into());
        }
        record.push("--".into());
        record.push(self.program.clone().into());
        record.push(seed.to_string().into());
        let recorded = self.run(&record, seed % 5 == 2)?;
        check_expected(&self.header, &recorded, true)?;
        let replayed = self.run(&["replay".into(), trace.clone().into()], seed % 5 == 3)?;
        // The seed of a chaotic schedule is printed on standard error.
        let quiet = |outcome: &Outcome| Outcome {
            stderr: Vec::new(),
            ..outcome.clone()
        };
        check_same(&quiet(&recorded), &quiet(&replayed))?;
        let verified = self.run(&["verify".into(), trace.clone().into()], false)?;
        if !verified.status.success() {
            let text = String::from_utf8_lossy(&verified.stderr).into_owned();
            return Err(format!("verify: {text}\n  {}", verified.by_hand));
        }
        std::fs::remove_dir_all(&trace).map_err(|e| e.to_string())
    }
}

#[test]
fn random_programs_are_replayed() {
    if find_compiler_is_missing() {
        return;
    }
    let case = guests()
        .into_iter()
        .find(|case| case.name == "torture")
        .expect("the guest is there");
    let header = case.header.clone().expect("it has a header");
    let guests = Path::new(TMP).join("guests");
    let program = compile(&case.path, &header, case.links()[0], &guests).expect("it compiles");
    let folder = Path::new(TMP).join("torture");
    std::fs::create_dir_all(&folder).expect("a folder");
    let torture = Torture {
        program,
        header,
        folder,
    };
    let first = variable("RELIVE_TORTURE_SEED", 1);
    let failed: Vec<String> = (first..first + variable("RELIVE_TORTURE", 8))
        .filter_map(|seed| Some(format!("seed {seed}: {}", torture.seed(seed).err()?)))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Whether there is no compiler, where there need not be one.
fn find_compiler_is_missing() -> bool {
    relive_tests::needs::find_tool("gcc").is_none()
        && match missing_tool("gcc", is_ci()) {
            relive_tests::needs::Missing::Skip(_) => true,
            relive_tests::needs::Missing::Fail(reason) => panic!("{reason}"),
        }
}
