//! The page in the documentation is the one generated from the tables. `RELIVE_BLESS=1` writes it
//! anew instead.

use std::fs;
use std::path::Path;

#[test]
fn page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/syscalls.md");
    let page = relive_kabi::coverage_page();
    if std::env::var_os("RELIVE_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, &page).expect("docs/syscalls.md can be written");
    }
    let found = fs::read_to_string(&path).expect("docs/syscalls.md can be read");
    let first = page
        .lines()
        .zip(found.lines())
        .find(|(new, old)| new != old);
    assert_eq!(
        first, None,
        "docs/syscalls.md is out of date: new and old line"
    );
    assert!(
        page == found,
        "docs/syscalls.md is out of date: lines are missing or left over"
    );
}

#[test]
fn page_has_a_line_for_every_row() {
    let page = relive_kabi::coverage_page();
    for row in relive_kabi::TABLE {
        let start = format!("| {} | `{}` |", row.nr, row.name);
        assert_eq!(
            page.lines().filter(|line| line.starts_with(&start)).count(),
            1,
            "{start}"
        );
    }
    assert!(
        page.lines()
            .filter(|line| line.starts_with('|'))
            .all(|line| line.ends_with(" |"))
    );
}
