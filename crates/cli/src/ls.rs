//! `relive ls`.

use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_trace::{Listed, Manifest};
use serde_json::{Value, json};

use crate::args::LsArgs;
use crate::room::Room;
use crate::{command_line, escape, format, output, traces};

/// Longest command line in the table.
const COMMAND_MAX: usize = 48;

/// Lists the recordings.
///
/// # Errors
/// The folder for recordings cannot be read.
pub fn execute(args: &LsArgs) -> Result<EndStatus, Failure> {
    let base = relive_trace::default_dir().map_err(Failure::setup)?;
    let all = relive_trace::list(&base).map_err(Failure::setup)?;
    let latest = std::fs::canonicalize(base.join("latest")).ok();
    let is_latest =
        |listed: &Listed| latest.is_some() && std::fs::canonicalize(&listed.path).ok() == latest;
    output::print(|out| {
        if args.json {
            let values: Vec<Value> = all
                .iter()
                .map(|listed| object(listed, is_latest(listed)))
                .collect();
            writeln!(out, "{:#}", Value::from(values))?;
        } else if all.is_empty() {
            writeln!(
                out,
                "no recordings in {} yet: relive record PROGRAM makes one",
                base.display()
            )?;
        } else {
            let mut rows = vec![
                ["", "NAME", "SIZE", "LENGTH", "RECORDED", "END", "COMMAND"]
                    .map(str::to_owned)
                    .to_vec(),
            ];
            rows.extend(all.iter().map(|listed| row(listed, is_latest(listed))));
            format::table(out, &[2, 3, 4], &rows)?;
        }
        Ok(())
    })
}

fn row(listed: &Listed, latest: bool) -> Vec<String> {
    let mark = if latest { "*" } else { "" }.to_owned();
    let name = escape::line(listed.name.as_bytes());
    let size = format::size(Room::of(&listed.path).own);
    match &listed.manifest {
        Ok(manifest) => {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs());
            let length = traces::length(manifest).map(format::duration);
            let age = format::age(now.saturating_sub(manifest.created));
            let command = command_line::shown(&manifest.command, COMMAND_MAX);
            vec![
                mark,
                name,
                size,
                length.unwrap_or_default(),
                age,
                end(manifest),
                command,
            ]
        }
        Err(error) => vec![
            mark,
            name,
            size,
            String::new(),
            String::new(),
            "unreadable".to_owned(),
            escape::line(error.to_string().as_bytes()),
        ],
    }
}

/// How the recording ended, in a few words.
fn end(manifest: &Manifest) -> String {
    match &manifest.summary {
        Some(summary) => match format::ended(summary.exit) {
            EndStatus::Code(code) => format!("exit {code}"),
            EndStatus::Signal(signal) => format::signal(signal),
        },
        None if manifest.complete => "cut".to_owned(),
        None => "cut off".to_owned(),
    }
}

fn object(listed: &Listed, latest: bool) -> Value {
    let room = Room::of(&listed.path);
    let mut object = json!({
        "name": listed.name.to_string_lossy(),
        "path": listed.path.to_string_lossy(),
        "latest": latest,
        "bytes": room.all,
        "own_bytes": room.own,
    });
    match &listed.manifest {
        Ok(manifest) => {
            object["command"] = json!(manifest.command);
            object["created"] = json!(manifest.created);
            object["complete"] = json!(manifest.complete);
            object["wall_ms"] = json!(traces::length(manifest).map(|t| t.as_millis() as u64));
            object["excerpt"] = json!(manifest.excerpt.is_some());
            object["exit"] = json!(manifest.summary.as_ref().map(|s| s.exit));
        }
        Err(error) => object["error"] = json!(error.to_string()),
    }
    object
}
