//! Discovers the cases: every guest source in `guests/`, every script in `programs/`.

use crate::compile::comment_marker;
use crate::header::{Header, Link};
use std::fs;
use std::path::{Path, PathBuf};

/// One discovered file with its header.
#[derive(Clone, Debug)]
pub struct Case {
    /// The file's name without its extension; unique in its folder.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Its header, or why it cannot be read (the trial then fails with this).
    pub header: Result<Header, String>,
}

impl Case {
    /// The header's link variants; one for a header that cannot be read, so that a trial reports
    /// it.
    pub fn links(&self) -> Vec<Link> {
        self.header
            .as_ref()
            .map_or(vec![Link::Pie], |header| header.links.clone())
    }
}

/// All guests, by name.
pub fn guests() -> Vec<Case> {
    discover("guests", comment_marker)
}

/// All scripts, by name.
pub fn programs() -> Vec<Case> {
    discover("programs", |path| {
        (path.extension()? == "sh").then_some("#")
    })
}

fn discover(folder: &str, marker: fn(&Path) -> Option<&'static str>) -> Vec<Case> {
    let folder = crate::crate_dir().join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut cases: Vec<Case> = Vec::new();
    for entry in entries {
        let path = entry.expect("the folder is readable").path();
        let name = path
            .file_stem()
            .expect("a file has a name")
            .to_string_lossy()
            .into_owned();
        let header = match marker(&path) {
            Some(marker) => read_header(&path, marker),
            None if path.is_dir() => continue,
            None => Err(format!("{}: no known kind of case", path.display())),
        };
        cases.push(Case { name, path, header });
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    for pair in cases.windows(2) {
        assert_ne!(
            pair[0].name,
            pair[1].name,
            "two cases in {} share a name",
            folder.display()
        );
    }
    cases
}

fn read_header(path: &Path, marker: &str) -> Result<Header, String> {
    let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    Header::parse(&text, marker).map_err(|e| format!("{}: {e}", path.display()))
}
