//! Remarks of a recording at its end, on programs that could not do something.

use std::os::unix::fs::PermissionsExt;

use crate::sandbox::{Outcome, Sandbox};

/// How often a text is in the remarks.
fn count(outcome: &Outcome, text: &str) -> usize {
    outcome.stderr.matches(text).count()
}

#[test]
fn a_program_for_other_processors_is_named_once() {
    let sandbox = Sandbox::new();
    let program = sandbox.path("foreign");
    // 32 bits, little endian, for the 80386.
    let mut header = b"\x7fELF\x01\x01\x01".to_vec();
    header.resize(16, 0);
    header.extend_from_slice(&[2, 0, 3, 0]);
    header.resize(128, 0);
    std::fs::write(&program, header).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let script = "import os\nfor i in range(2):\n  try: os.execv('./foreign', ['foreign'])\n  except OSError as e: print(e.errno)";
    let shell = "./foreign; ./foreign; echo $?";
    let outcome = match std::process::Command::new("python3").arg("-V").output() {
        Ok(_) => sandbox.relive(&["record", "python3", "-c", script]),
        Err(_) => sandbox.relive(&["record", "sh", "-c", shell]),
    }
    .ok();
    let said = "relive: ./foreign was not executed (ENOEXEC): only x86-64 programs and scripts";
    assert_eq!(count(&outcome, said), 1, "{outcome:#?}");
    let replayed = sandbox.relive(&["replay"]).ok();
    assert_eq!(replayed.stdout, outcome.stdout);
    assert_eq!(count(&replayed, "foreign was not executed"), 0);
}

#[test]
fn sanitizers_that_cannot_work_are_told_of() {
    let sandbox = Sandbox::new();
    let source = sandbox.path("traced.c");
    let text = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
static char stack[65536];
static int child(void *unused) { return 0; }
int main(void) {
    for (int i = 0; i < 2; i++) {
        if (clone(child, stack + sizeof stack, CLONE_VM | CLONE_UNTRACED | SIGCHLD, 0) >= 0) return 1;
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
        if (mmap((void *)0x7b0000000000, 1ul << 40, PROT_NONE, flags, -1, 0) != MAP_FAILED) return 2;
    }
    return 0;
}
"#;
    std::fs::write(&source, text).unwrap();
    let program = sandbox.compile(&source, "traced");
    let outcome = sandbox.relive(&["record", program.to_str().unwrap()]).ok();
    assert_eq!(
        count(&outcome, "set ASAN_OPTIONS=detect_leaks=0"),
        1,
        "{outcome:#?}"
    );
    assert_eq!(
        count(&outcome, "programs with ThreadSanitizer or"),
        1,
        "{outcome:#?}"
    );
    assert_eq!(sandbox.relive(&["replay"]).ok().stderr, "");
}
