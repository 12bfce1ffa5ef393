//! The requirements of a case on the machine: CPU features and tools.
//!
//! A missing CPU feature skips the case. A missing tool skips it too, except where the
//! environment says `CI=true`: there a tool can be installed, so its absence is a failure.

use crate::header::Header;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The search path of every child: fixed, so that version-manager shims in a developer's own `PATH`
/// do not change the programs of a case.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The reason why a case does not run here.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    /// Report as ignored, with this reason.
    Skip(String),
    /// Report as failed, with this reason.
    Fail(String),
}

/// `None` when everything that the header needs is here.
pub fn missing(header: &Header) -> Option<Missing> {
    if let Some(feature) = header
        .needs
        .iter()
        .find(|name| !cpu_features().contains(name.as_str()))
    {
        return Some(Missing::Skip(format!("skipped: this CPU lacks {feature}")));
    }
    let absent = header
        .needs_tools
        .iter()
        .find(|tool| find_tool(tool).is_none())?;
    Some(missing_tool(absent, is_ci()))
}

/// The effect of a missing tool.
pub fn missing_tool(tool: &str, ci: bool) -> Missing {
    match ci {
        true => Missing::Fail(format!(
            "{tool} is not installed (CI=true makes this a failure)"
        )),
        false => Missing::Skip(format!("skipped: {tool} is not installed")),
    }
}

/// Whether the environment says `CI=true`.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// A tool's full path, on [`SEARCH_PATH`].
pub fn find_tool(name: &str) -> Option<PathBuf> {
    let candidates = SEARCH_PATH
        .split(':')
        .map(|folder| Path::new(folder).join(name));
    candidates.into_iter().find(|path| path.is_file())
}

fn cpu_features() -> &'static HashSet<String> {
    static FEATURES: OnceLock<HashSet<String>> = OnceLock::new();
    FEATURES.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/cpuinfo").expect("/proc/cpuinfo is readable");
        let flags = text.lines().find_map(|line| line.strip_prefix("flags"));
        let words = flags
            .and_then(|line| line.split_once(':'))
            .expect("cpuinfo has flags")
            .1;
        words.split_ascii_whitespace().map(str::to_owned).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_and_tools_are_looked_up() {
        let header = |needs: &str| Header::parse(&format!("# relive: {needs}\n"), "#").unwrap();
        assert_eq!(missing(&header("needs=sse2 needs-tool=sh")), None);
        let skip = missing(&header("needs=no_such_feature"));
        assert!(matches!(skip, Some(Missing::Skip(text)) if text.contains("no_such_feature")));
        assert!(missing(&header("needs-tool=no-such-tool")).is_some());
        assert!(matches!(missing_tool("xz", true), Missing::Fail(_)));
        assert!(
            matches!(missing_tool("xz", false), Missing::Skip(text) if text.contains("skipped"))
        );
    }
}
