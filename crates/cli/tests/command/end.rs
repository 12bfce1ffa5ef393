//! `relive` ends as the program ends.

use crate::sandbox::{Sandbox, text};

#[test]
fn exit_statuses_pass_through() {
    let sandbox = Sandbox::new();
    // 125 and 2 mean something else when they are Relive's own.
    for code in [0, 1, 2, 7, 125, 255] {
        let script = format!("exit {code}");
        assert_eq!(
            sandbox.relive(&["run", "sh", "-c", &script]).code(),
            Some(code)
        );
        assert_eq!(
            sandbox.relive(&["record", "sh", "-c", &script]).code(),
            Some(code)
        );
        assert_eq!(sandbox.relive(&["replay"]).code(), Some(code));
        assert_eq!(sandbox.relive(&["verify"]).code(), Some(0));
    }
}

#[test]
fn a_death_by_signal_passes_through() {
    let sandbox = Sandbox::new();
    for (name, number) in [
        ("TERM", libc::SIGTERM),
        ("SEGV", libc::SIGSEGV),
        ("KILL", libc::SIGKILL),
    ] {
        let script = format!("kill -{name} $$");
        assert_eq!(
            sandbox.relive(&["run", "sh", "-c", &script]).signal(),
            Some(number)
        );
        assert_eq!(
            sandbox.relive(&["record", "sh", "-c", &script]).signal(),
            Some(number),
            "{name}"
        );
        assert_eq!(sandbox.relive(&["replay"]).signal(), Some(number), "{name}");
        assert_eq!(sandbox.relive(&["verify"]).code(), Some(0), "{name}");
    }
}

#[test]
fn a_missing_program_is_refused() {
    let sandbox = Sandbox::new();
    for command in ["record", "run", "hunt"] {
        sandbox
            .relive(&[command, "no-such-program"])
            .refused("no-such-program was not found");
        sandbox
            .relive(&[command, "./no-such-program"])
            .refused("./no-such-program was not found");
    }
    assert_eq!(sandbox.recordings(), [""; 0]);
    assert_eq!(sandbox.latest(), None);
}

#[test]
fn what_is_no_program_is_refused() {
    let sandbox = Sandbox::new();
    let plain = sandbox.path("plain");
    std::fs::write(&plain, "hello").unwrap();
    sandbox.relive(&["record", text(&plain)]).refused("plain");
    sandbox.relive(&["record", "/"]).refused("/");
    assert_eq!(sandbox.recordings(), [""; 0]);
}
