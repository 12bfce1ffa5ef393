//! Rules for the sources of the libraries that tokens and lines show: reasons of statics, names of types,
//! paths that a folder may not name. It must never read code that only tests use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Parts of the types of statics that never change, or whose content is not this process's.
const CONSTANT: &[&str] = &[
    "Chunk", "Handling", "Kernel ", "Requests", "Section<", "[Row;", "[Sub;", "[u16;",
];

/// The beginnings of a reason.
const REASONS: &[&str] = &["Process-wide: ", "Thread-wide: "];

/// A source of a library: where it is, and its text without tests.
#[derive(Debug)]
pub struct Source {
    /// Its path.
    pub path: PathBuf,
    text: String,
}

/// All sources below a folder but those of tests.
///
/// # Errors
/// One cannot be read.
pub fn sources(folder: &Path) -> io::Result<Vec<Source>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("test") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let text = without_tests(&fs::read_to_string(&path)?).to_owned();
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn without_tests(text: &str) -> &str {
    let mut parts = text.split("#[cfg(test)]\nmod tests {");
    parts.next().unwrap_or_default()
}

impl Source {
    /// Its statics without a reason in the comment above.
    pub fn unexplained(&self) -> Vec<String> {
        unexplained(&self.text)
    }

    /// The types that it declares, but for those within functions.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        types(&self.text)
    }

    /// Whether it names a path.
    pub fn names(&self, path: &str) -> bool {
        let code = self.text.lines().map(str::trim);
        code.filter(|line| !line.starts_with("//"))
            .any(|line| line.contains(path))
    }
}

fn types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = without_visibility(line);
        let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
        let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
        rest.split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
    })
}

/// The statics of a source without a reason.
fn unexplained(source: &str) -> Vec<String> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((name, of)) = declared(line) else {
            continue;
        };
        let above = lines[..at].iter().rev();
        let mut above = above.take_while(|l| l.starts_with("///") || l.starts_with("#["));
        let constant = CONSTANT.iter().any(|part| of.contains(part));
        let reason = |line: &&str| REASONS.iter().any(|reason| line.contains(reason));
        if !constant && !above.any(reason) {
            found.push(name.to_owned());
        }
    }
    found
}

/// Name and type of the static that a line declares.
fn declared(line: &str) -> Option<(&str, &str)> {
    let line = without_visibility(line).strip_prefix("static ")?;
    line.strip_prefix("mut ").unwrap_or(line).split_once(": ")
}

fn without_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else {
        return line;
    };
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or("", |(_, rest)| rest),
        None => rest,
    };
    rest.trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_needs_a_reason_unless_it_is_constant() {
        let source = "\
/// A counter. Process-wide: a signal handler counts.
#[used]
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Another one.
pub(super) static OTHER: AtomicU64 = AtomicU64::new(0);
pub static REMARKS: Section<Remarks> = Section::new();
fn f() -> &'static str {
    static mut INNER: u8 = 0;
}
#[cfg(test)]
mod tests {
    static TURN: Mutex<()> = Mutex::new(());
}
";
        assert_eq!(unexplained(without_tests(source)), ["OTHER", "INNER"]);
    }

    #[test]
    fn types_are_found_by_their_declarations() {
        let source =
            "struct One;\npub(crate) enum Two<T> {}\npub type Three = u8;\n    struct Inner;\n";
        assert_eq!(types(source).collect::<Vec<_>>(), ["One", "Two", "Three"]);
    }
}
