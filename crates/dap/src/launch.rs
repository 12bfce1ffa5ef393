//! Launching: the recording, and the place in it.

use std::collections::BTreeMap;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::answers::{Answer, Refusal, arguments};
use crate::gdb::Gdb;
use crate::mi::{Record, quote};
use crate::run::{Run, Way};
use crate::session::Session;

/// Arguments of `launch` and `attach`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Launch {
    /// Name or folder; the latest recording if absent.
    trace: Option<String>,
    /// `start`, `end`, `crash`, a number of events, or a position.
    at: Option<Json>,
    /// Index of the process.
    process: Option<u32>,
    /// The gdb to start.
    gdb: Option<String>,
    /// Folders in the debug information, and their present places.
    source_map: BTreeMap<String, String>,
    /// Whether to stop at that place instead of going on to the first breakpoint.
    stop_on_entry: Option<bool>,
    /// Commands of gdb's console, run first.
    init_commands: Vec<String>,
}

/// Settings that must hold before gdb connects to the recording.
const EARLY: [&str; 6] = [
    "set mi-async on",
    "set pagination off",
    "set width 0",
    "set height 0",
    "set debuginfod enabled off",
    "set print entry-values no",
];

impl Launch {
    fn at(&self) -> Result<String, Refusal> {
        match &self.at {
            None => Ok("start".to_owned()),
            Some(Json::String(place)) => Ok(place.clone()),
            Some(Json::Number(n)) => Ok(n.to_string()),
            Some(_) => Err(Refusal::shown(
                "'at' is start, end, crash, a number of events, or EVENT:TICK",
            )),
        }
    }

    /// `relive debug` with a gdb that speaks the machine interface.
    fn command(&self, relive: &std::path::Path) -> Result<Command, Refusal> {
        let mut command = Command::new(relive);
        command.args(["debug", &format!("--at={}", self.at()?)]);
        if let Some(process) = self.process {
            command.arg(format!("--process={process}"));
        }
        if let Some(gdb) = &self.gdb {
            command.arg(format!("--gdb={gdb}"));
        }
        match self.trace.as_deref() {
            // A name must not look like an option.
            Some(trace) if trace.starts_with('-') => command.arg(format!("./{trace}")),
            Some(trace) if !trace.is_empty() => command.arg(trace),
            _ => &mut command,
        };
        command.args(["--", "--interpreter=mi3"]);
        for setting in EARLY {
            command.args(["-iex", setting]);
        }
        Ok(command)
    }
}

impl Session {
    pub(crate) fn launch(&mut self, given: &Json) -> Answer {
        if self.gdb.is_some() {
            return Err("a recording is launched already".into());
        }
        let launch: Launch = arguments(given)?;
        let mut command = launch.command(&self.relive)?;
        self.said.clear();
        let started = Gdb::start(&mut command, &self.sender);
        let started = started.map_err(|e| Refusal::shown(format!("relive cannot start: {e}")))?;
        self.gdb = Some(started);
        let begun = self.begin(&launch);
        if let Err(refusal) = begun {
            if let Some(gdb) = self.gdb.take() {
                gdb.end();
            }
            let lines = std::mem::take(&mut self.said);
            return Err(Refusal::shown(match lines.is_empty() {
                true => refusal.message,
                false => lines.join("\n"),
            }));
        }
        let at_start = matches!(launch.at()?.as_str(), "start" | "0");
        self.stop_on_entry = launch.stop_on_entry.unwrap_or(!at_start);
        self.after.push(("initialized", json!({})));
        self.after.push((
            "process",
            json!({ "name": launch.trace.as_deref().unwrap_or("latest"),
                "isLocalProcess": false, "startMethod": "attach" }),
        ));
        Ok(Json::Null)
    }

    /// Waits until gdb is connected to the recording, and configures it.
    fn begin(&mut self, launch: &Launch) -> Result<(), Refusal> {
        loop {
            match self.receive()? {
                Record::Prompt => break,
                other => self.note(other),
            }
        }
        self.look_at_threads()?;
        if self.threads.is_empty() {
            return Err("gdb has no recording".into());
        }
        self.ask("-enable-pretty-printing")?;
        for (from, to) in &launch.source_map {
            let rule = format!("set substitute-path {} {}", quote(from), quote(to));
            self.console(&rule)?;
        }
        for command in &launch.init_commands {
            let text = self.console(command)?;
            self.pen.say("console", &text);
        }
        Ok(())
    }

    pub(crate) fn configuration_done(&mut self, _: &Json) -> Answer {
        if self.configured {
            return Err("configurationDone comes once".into());
        }
        self.configured = true;
        if self.stop_on_entry {
            // As if the recording had just stopped.
            self.ran = None;
            let stop = crate::mi::Value::Tuple(Vec::new());
            self.stop = Some(self.stop.take().unwrap_or(stop));
        } else {
            self.stop = None;
            self.resume("-exec-continue", Run::go(Way::Forward))?;
        }
        Ok(Json::Null)
    }
}
