//! The pages about the inside of the project name files that are there: a file that moves takes its name
//! on the pages along.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use relive_tests::crate_dir;

/// Ends of words that name files; a folder ends with a slash.
const ENDS: [&str; 5] = [".rs", ".md", ".ld", ".gdb", "/"];
/// Parts of paths that pages leave out.
const LEFT_OUT: [&str; 2] = ["crates", "src"];

fn root() -> PathBuf {
    crate_dir().join("../..")
}

/// The names of all files and folders below a folder: every end of their paths, with and without the
/// parts that pages leave out.
fn names(folder: &Path, above: &[String], all: &mut BTreeSet<String>) {
    let entries = fs::read_dir(folder).expect("a folder of the project can be read");
    for entry in entries {
        let entry = entry.expect("it can be read");
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        let is_folder = entry.file_type().expect("it has a type").is_dir();
        let path = [above, &[name]].concat();
        add(&path, is_folder, all);
        let short = path
            .iter()
            .filter(|part| !LEFT_OUT.contains(&part.as_str()));
        add(&short.cloned().collect::<Vec<_>>(), is_folder, all);
        if is_folder {
            names(&entry.path(), &path, all);
        }
    }
}

fn add(path: &[String], is_folder: bool, all: &mut BTreeSet<String>) {
    let end = if is_folder { "/" } else { "" };
    all.extend((0..path.len()).map(|from| path[from..].join("/") + end));
}

/// The words of a page in code style that look like a file or a folder of the project.
fn files_named(page: &str) -> BTreeSet<&str> {
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|word| is_path(word))
        .collect()
}

fn is_path(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let begins = word.starts_with(|c: char| c.is_ascii_alphanumeric());
    begins && word.chars().all(plain) && ENDS.iter().any(|end| word.ends_with(end))
}

#[test]
fn pages_name_files_that_are_there() {
    let mut there = BTreeSet::new();
    names(&root(), &[], &mut there);
    let folder = root().join("docs/internals");
    let entries = fs::read_dir(folder).expect("the pages are there");
    let mut pages: Vec<PathBuf> = entries.map(|e| e.expect("a page").path()).collect();
    pages.push(root().join("ARCHITECTURE.md"));
    let mut wrong = Vec::new();
    for path in pages {
        let page = fs::read_to_string(&path).expect("a page can be read");
        let gone = files_named(&page)
            .into_iter()
            .filter(|name| !there.contains(*name));
        wrong.extend(gone.map(|name| format!("{}: `{name}`", path.display())));
    }
    assert!(wrong.is_empty(), "no such file:\n{}", wrong.join("\n"));
}

#[test]
fn a_word_in_code_style_is_a_file_by_its_end() {
    let page = "see `kernel/own.rs` and `modes/`, not `Stop::Internal`, `/proc/` or `a b.rs`";
    let named: Vec<&str> = files_named(page).into_iter().collect();
    assert_eq!(named, ["kernel/own.rs", "modes/"]);
}
