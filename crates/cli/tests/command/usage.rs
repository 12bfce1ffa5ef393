//! Wrong command lines: status 2 and what is wrong.

use crate::sandbox::Sandbox;

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
