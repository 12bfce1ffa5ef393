//! The crates of the workspace: their sources, and the others that they depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use super::graph::Graph;
use super::imports::{Module, imports};

/// The sources of one crate.
#[derive(Debug, Default)]
pub struct Crate {
    /// Text by path below `src`.
    files: BTreeMap<String, String>,
}

impl Crate {
    /// From texts by path below `src`.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Self {
            files: files.collect(),
        }
    }

    /// The crate in a folder.
    ///
    /// # Errors
    /// Its sources cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        collect(&folder.join("src"), "", &mut files)?;
        Ok(Self { files })
    }

    /// The graph of names that files take from each other.
    #[must_use]
    pub fn graph(&self) -> Graph {
        let modules: BTreeMap<Module, &str> = self
            .files
            .keys()
            .map(|path| (module(path), path.as_str()))
            .collect();
        let known: BTreeSet<Module> = modules.keys().cloned().collect();
        let read: BTreeMap<&str, _> = modules
            .iter()
            .map(|(module, path)| (*path, imports(&self.files[*path], module, &known)))
            .collect();
        let of_tests = |module: &Module| {
            let mut all = read.values().flat_map(|read| &read.of_tests);
            all.any(|tests| module.starts_with(tests))
        };
        let mut graph = Graph::default();
        for (module, from) in modules.iter().filter(|(module, _)| !of_tests(module)) {
            graph.add_file(from);
            for path in &read[from].paths {
                // The longest part that is a module; the rest is a name in it.
                let ends = (0..=path.len()).rev();
                let end = ends.into_iter().find(|end| known.contains(&path[..*end]));
                let Some(end) = end.filter(|end| path[..*end] != module[..]) else {
                    continue;
                };
                let name = match path.get(end) {
                    Some(name) => name.as_str(),
                    None => "the module",
                };
                graph.add(from, modules[&path[..end]], name);
            }
        }
        graph
    }
}

fn collect(folder: &Path, below: &str, files: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else if path.ends_with(".rs") {
            files.insert(path, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

/// The module of a file.
fn module(path: &str) -> Module {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut parts: Module = path.split('/').map(str::to_owned).collect();
    let last = parts.last().map_or("", String::as_str);
    let is_root = parts.len() == 1 && matches!(last, "lib" | "main");
    if is_root || last == "mod" {
        parts.pop();
    }
    parts
}

/// The crates of the workspace that a manifest (`Cargo.toml`) depends on in any way, without the
/// common prefix of their names.
#[must_use]
pub fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut inside = false;
    for line in manifest
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""))
    {
        if line.trim_start().starts_with('[') {
            inside = line.contains("dependencies");
        }
        if inside {
            for part in line.split("relive-").skip(1) {
                let is_name = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
                let end = part.find(|c| !is_name(c)).unwrap_or(part.len());
                all.insert(part[..end].to_owned());
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_modules() {
        for (path, expected) in [
            ("lib.rs", &[][..]),
            ("main.rs", &[]),
            ("a.rs", &["a"]),
            ("a/mod.rs", &["a"]),
            ("a/main.rs", &["a", "main"]),
        ] {
            assert_eq!(module(path), expected, "{path}");
        }
    }

    #[test]
    fn a_circle_is_found_and_tests_make_none() {
        let mut files = vec![
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            (
                "a/mod.rs",
                "use crate::b::B; #[cfg(test)] mod tests; pub struct A;",
            ),
            ("a/tests.rs", "use crate::A; use super::*;"),
            (
                "b.rs",
                "#[cfg(test)] mod tests { use crate::a::A; } pub struct B;",
            ),
        ];
        assert_eq!(Crate::of(&files).graph().measure(), (1, 0));
        files[3].1 = "pub struct B(crate::a::A);";
        assert_eq!(Crate::of(&files).graph().measure(), (2, 1));
        files[3].1 = "pub struct B(crate::A);";
        assert_eq!(Crate::of(&files).graph().measure(), (3, 1));
    }

    #[test]
    fn dependencies_of_all_kinds() {
        let manifest = "\
            [package]\nname = \"relive-x\"\n\
            [dependencies]\nrelive-a.workspace = true # relive-z\nlibc = \"1\"\n\
            b = { package = \"relive-b\", path = \"../b\" }\n\
            [dev-dependencies.relive-c]\npath = \"../c\"\n\
            [[test]]\nname = \"relive-y\"\n\
            [target.'cfg(unix)'.build-dependencies]\nrelive-d = { path = \"../d\" }\n";
        let expected = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(dependencies(manifest), expected.into());
    }
}
