//! `.ci/run` installs each tool that a case needs: with `CI=true` a missing one fails the case, and a machine
//! that has it by chance would hide that.

use std::collections::BTreeSet;
use std::fs;

use relive_tests::case::{guests, programs};
use relive_tests::crate_dir;

/// The tools in the table `TOOLS` of the script: lines of a tool and its package.
fn installed(script: &str) -> BTreeSet<String> {
    let table = script.split("\nTOOLS='\n").nth(1).expect("a table");
    let rows = table.lines().take_while(|line| *line != "'");
    rows.map(|row| row.split(' ').next().expect("a word").to_owned())
        .collect()
}

#[test]
fn each_tool_that_a_case_needs_is_installed() {
    let script = crate_dir().join("../../.ci/run");
    let installed = installed(&fs::read_to_string(script).expect("it can be read"));
    assert!(installed.contains("gcc"), "{installed:?}");
    let cases = guests().into_iter().chain(programs());
    let needed: BTreeSet<String> = cases
        .flat_map(|case| case.header.expect("a header").needs_tools)
        .collect();
    let missing: Vec<_> = needed.difference(&installed).collect();
    assert!(missing.is_empty(), "not in .ci/run: {missing:?}");
}
