//! Statics of the libraries: each says why no argument can carry it. It must never read code that only
//! tests use.

use std::fs;
use std::io;
use std::path::Path;

/// Parts of the types of statics that never change, or whose content is not this process's.
const CONSTANT: &[&str] = &[
    "Chunk", "Handling", "Kernel ", "Requests", "Section<", "[Row;", "[Sub;", "[u16;",
];

/// The beginnings of a reason.
const REASONS: &[&str] = &["Process-wide: ", "Thread-wide: "];

/// The statics below a folder without a reason in the comment above, as `file: name`.
///
/// # Errors
/// A source cannot be read.
pub fn without_reason(folder: &Path) -> io::Result<Vec<String>> {
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
                let all = unexplained(&fs::read_to_string(&path)?);
                found.extend(all.iter().map(|name| format!("{}: {name}", path.display())));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The statics of a source without a reason.
fn unexplained(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next();
    let lines: Vec<&str> = code.unwrap_or_default().lines().map(str::trim).collect();
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
    let line = match line.strip_prefix("pub") {
        Some(rest) => match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1,
            None => rest,
        },
        None => line,
    };
    let line = line.trim_start().strip_prefix("static ")?;
    line.strip_prefix("mut ").unwrap_or(line).split_once(": ")
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
        assert_eq!(unexplained(source), ["OTHER", "INNER"]);
    }
}
