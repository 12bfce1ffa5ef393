//! Wrong command lines: status 2 and the reason.

use std::process::Stdio;

use crate::sandbox::{Sandbox, finish};

#[test]
fn wrong_command_lines_end_with_2() {
    let sandbox = Sandbox::new();
    for (words, told) in [
        (&[][..], "Usage"),
        (&["no-such-command"], "no-such-command"),
        (&["record"], "PROGRAM"),
        (&["record", "--choas", "true"], "--choas"),
        (&["run", "-x", "true"], "-x"),
        (&["hunt", "--timeout", "soon", "true"], "soon"),
        (&["hunt", "-n", "0", "true"], "0"),
        (&["hunt", "--mode", "coherence", "true"], "sketch"),
        (&["hunt", "--mode", "uniparallel", "true"], "sketch"),
        (&["record", "--chaos=UUU", "true"], "seed"),
        (&["dump", "--from", "x"], "--from"),
        (&["replay", "a", "b"], "b"),
    ] {
        let outcome = sandbox.relive(words);
        assert_eq!(outcome.code(), Some(2), "{words:?}: {outcome:#?}");
        assert!(outcome.stderr.contains(told), "{words:?}: {outcome:#?}");
    }
    assert!(!sandbox.base().exists());
}

#[test]
fn chaos_is_for_sketches_too() {
    let sandbox = Sandbox::new();
    let words = ["record", "--mode", "sketch", "--chaos=abc", "true"];
    sandbox.relive(&words).ok();
    let told = sandbox.relive(&["info"]).ok().stdout;
    assert!(told.contains("chaos seed abc"), "{told}");
    sandbox.relive(&["replay"]).ok();
}

#[test]
fn help_and_version() {
    let sandbox = Sandbox::new();
    assert!(
        sandbox
            .relive(&["--help"])
            .ok()
            .stdout
            .contains("Examples:")
    );
    assert!(
        sandbox
            .relive(&["--version"])
            .ok()
            .stdout
            .starts_with("relive ")
    );
}

#[test]
fn help_that_cannot_be_written_is_no_success() {
    let sandbox = Sandbox::new();
    for words in [&["--help"][..], &["dump", "-h"], &["--version"]] {
        let full = std::fs::File::create("/dev/full").unwrap();
        let mut child = sandbox.command(words);
        let status = child.stdout(full).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(125), "{words:?}");
    }
}

#[test]
fn log_levels() {
    let sandbox = Sandbox::new();
    for (wanted, told) in [
        ("syscall=debug", Some("DEBUG syscall: p0.t0 exit_group")),
        ("dbt=warn", None),
        ("syscall=debug=dbt", Some("RELIVE_LOG=syscall=debug=dbt: ")),
    ] {
        let mut command = sandbox.command(&["run", "true"]);
        command.env("RELIVE_LOG", wanted);
        let said = finish(command).ok().stderr;
        match told {
            Some(told) => assert!(said.contains(told), "{wanted}: {said}"),
            None => assert_eq!(said, "", "{wanted}"),
        }
    }
}

#[test]
fn a_recording_with_all_accesses_in_order_refuses_what_it_cannot() {
    let sandbox = Sandbox::new();
    let record = |option: &str| sandbox.relive(&["record", "--mode", "coherence", option, "true"]);
    record("--chaos=abc").refused("leave out --mode coherence, or --chaos");
    let words = ["record", "--mode", "coherence", "-o", "trace", "true"];
    sandbox.relive(&words).ok();
    let parallel = sandbox.relive(&["replay", "--parallel", "trace"]);
    parallel.refused("cannot be replayed with --parallel");
    sandbox.relive(&["verify", "trace"]).ok();
}
