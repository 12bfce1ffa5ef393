//! `relive demo`, the first command that a reader of the README tries.

use crate::sandbox::{Sandbox, finish};

#[test]
fn the_demo_works() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.relive(&["demo"]).ok();
    assert_eq!(outcome.stderr, "");
    let totals: Vec<&str> = outcome
        .stdout
        .lines()
        .filter_map(|line| {
            line.trim_start()
                .strip_prefix("replay ")?
                .split_once(": ")
                .map(|(_, total)| total)
        })
        .collect();
    assert!(
        totals.len() == 3
            && totals[0].ends_with("WRONG")
            && totals.iter().all(|total| *total == totals[0]),
        "{outcome:#?}"
    );
    assert!(outcome.stdout.contains("Next:"), "{outcome:#?}");
    assert_eq!(sandbox.recordings(), ["bank-0"]);
    let replayed = sandbox.relive(&["replay"]);
    assert_eq!(replayed.code(), Some(1));
    assert!(
        replayed.stdout.ends_with(&format!("{}\n", totals[0])),
        "{replayed:#?}"
    );
}

#[test]
fn without_a_compiler_it_says_so() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["demo"]);
    command.env("PATH", sandbox.path("nothing"));
    finish(command).refused("install a C compiler");
    assert_eq!(sandbox.recordings(), [""; 0]);
}
