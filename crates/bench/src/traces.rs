//! Facts about a recording on disk.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;

/// How large a recording is.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TraceFacts {
    /// Bytes of all files in the folder.
    pub bytes: u64,
    /// Those of what the program read from files.
    pub input_bytes: u64,
    /// Copies of the files that it mapped.
    pub file_bytes: u64,
    /// The others.
    pub tape_bytes: u64,
    /// Events on all tapes.
    pub events: u64,
    /// Seconds that the recording took.
    pub seconds: f64,
}

impl TraceFacts {
    /// Of a trace whose recording took so long.
    ///
    /// # Errors
    /// `relive info` failed, or the folder cannot be read.
    pub fn of(relive: &Path, trace: &Path, seconds: f64) -> Result<Self> {
        let output = Command::new(relive)
            .args(["info", "--json"])
            .arg(trace)
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "relive info: {}", said.trim());
        let info: Value = serde_json::from_slice(&output.stdout)?;
        let events = info["events"].as_u64().context("relive info: no events")?;
        let bytes = size(trace)?;
        let input = trace.join("input");
        let input_bytes = if input.exists() {
            input.metadata()?.len()
        } else {
            0
        };
        let file_bytes = size(&trace.join("files"))?;
        Ok(Self {
            bytes,
            input_bytes,
            file_bytes,
            tape_bytes: bytes - input_bytes - file_bytes,
            events,
            seconds,
        })
    }

    /// Of two recordings together.
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            input_bytes: self.input_bytes + other.input_bytes,
            file_bytes: self.file_bytes + other.file_bytes,
            tape_bytes: self.tape_bytes + other.tape_bytes,
            events: self.events + other.events,
            seconds: self.seconds + other.seconds,
        }
    }
}

/// Bytes of all files below a folder; 0 if there is none.
fn size(folder: &Path) -> Result<u64> {
    let mut all = 0;
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let about = entry.metadata()?;
            all += if about.is_dir() {
                size(&entry.path())?
            } else {
                about.len()
            };
        }
    }
    Ok(all)
}
