//! Finds the `relive` command, and builds it once if `RELIVE_BIN` does not name a built one.
//!
//! `RELIVE_BIN` names it. Without that it lies next to the test executable's profile folder; cargo
//! does not build another package's binary for a test, so that is done here, into the same target
//! folder and profile.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `relive` binary's path; the same answer for every caller in this process.
///
/// # Errors
/// `RELIVE_BIN` names no file, or the build failed (its messages are in the text).
pub fn relive() -> Result<&'static Path, &'static str> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND
        .get_or_init(find_or_build)
        .as_deref()
        .map_err(String::as_str)
}

fn find_or_build() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("RELIVE_BIN") {
        let path = PathBuf::from(path);
        let absolute = std::path::absolute(&path).map_err(|e| format!("RELIVE_BIN: {e}"))?;
        let found = absolute.is_file();
        return found
            .then_some(absolute)
            .ok_or(format!("RELIVE_BIN: no file {}", path.display()));
    }
    let executable = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
    let layout = Layout::of(&executable).ok_or_else(|| {
        format!(
            "{} does not lie in a cargo target folder; set RELIVE_BIN",
            executable.display()
        )
    })?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(crate::crate_dir()).args([
        "build",
        "--package",
        "relive",
        "--bin",
        "relive",
    ]);
    command
        .arg("--profile")
        .arg(layout.profile())
        .arg("--target-dir")
        .arg(&layout.target_dir);
    if let Some(triple) = &layout.triple {
        command.arg("--target").arg(triple);
    }
    let output = command
        .output()
        .map_err(|e| format!("cannot run cargo: {e}"))?;
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "the relive command does not build ({command:?}):\n{messages}"
        ));
    }
    Ok(layout.profile_dir.join("relive"))
}

/// The folders that cargo put the running test executable into.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    target_dir: PathBuf,
    triple: Option<String>,
    profile_dir: PathBuf,
}

impl Layout {
    /// Reads `TARGET_DIR[/TRIPLE]/PROFILE/deps/EXECUTABLE`.
    fn of(executable: &Path) -> Option<Self> {
        let deps = executable.parent()?;
        if deps.file_name()? != "deps" {
            return None;
        }
        let profile_dir = deps.parent()?.to_owned();
        let above = profile_dir.parent()?;
        let name = above.file_name()?.to_str()?;
        let triple =
            (name.split('-').count() >= 3 && name.contains("-linux-")).then(|| name.to_owned());
        let target_dir = if triple.is_some() {
            above.parent()?
        } else {
            above
        };
        Some(Self {
            target_dir: target_dir.to_owned(),
            triple,
            profile_dir,
        })
    }

    /// The profile's name: cargo calls the folder of `dev` and `test` `debug`.
    fn profile(&self) -> &str {
        match self.profile_dir.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_a_target_folder_is_read() {
        let with = Layout::of(Path::new(
            "/t/x86_64-unknown-linux-gnu/release/deps/guests-1",
        ))
        .unwrap();
        assert_eq!(with.target_dir, Path::new("/t"));
        assert_eq!(with.triple.as_deref(), Some("x86_64-unknown-linux-gnu"));
        assert_eq!(with.profile(), "release");
        let without = Layout::of(Path::new("/some-linux-box/debug/deps/guests-1")).unwrap();
        assert_eq!(without.profile(), "dev");
        assert_eq!(Layout::of(Path::new("/usr/bin/guests")), None);
    }
}
