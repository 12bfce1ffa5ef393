//! Plays the editor of a script.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use libtest_mimic::{Completion, Failed};
use relive_tests::command;
use relive_tests::dap_client::Client;
use relive_tests::dap_script::{Action, Names, Script};
use relive_tests::editors::Configurations;
use serde_json::{Value, json};

use crate::recordings::{lacking, recording, source};

/// Events for a stop, a continuation or an end of the recording: none may come unexpected.
const TOLD: [&str; 5] = [
    "initialized",
    "stopped",
    "continued",
    "exited",
    "terminated",
];

pub fn run(path: &Path) -> Result<Completion, Failed> {
    let script = Script::parse(&fs::read_to_string(path)?)?;
    if let Some(lacking) = lacking(&script.guest)? {
        return Ok(lacking);
    }
    let trace = recording(&script.guest, script.gone)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut editor = Editor::start(&script, &trace, &name)?;
    for step in &script.steps {
        if let Err(what) = editor.perform(&step.action) {
            let heard = editor.heard.join("\n");
            return Err(format!("line {}: {what}\nsaid and heard:\n{heard}", step.line).into());
        }
    }
    Ok(Completion::Completed)
}

struct Editor {
    client: Client,
    configurations: Configurations,
    names: Names,
    /// Events that no step has consumed yet.
    events: VecDeque<Value>,
    /// The answer to the last request.
    answer: Option<Value>,
    /// All messages.
    heard: Vec<String>,
}

impl Editor {
    fn start(script: &Script, trace: &Path, name: &str) -> Result<Self, Failed> {
        let folder = trace.parent().ok_or("a trace lies in a folder")?;
        let configurations = Configurations::documented(folder)?;
        let arguments: Vec<OsString> = configurations.arguments().iter().map(Into::into).collect();
        let client = Client::start(command::relive()?, &arguments, folder, name, script.port)?;
        let mut names = Names::default();
        names.keep("trace", json!(trace.display().to_string()));
        let source = source(&script.guest).canonicalize()?;
        names.keep("source", json!(source.display().to_string()));
        Ok(Self {
            client,
            configurations,
            names,
            events: VecDeque::new(),
            answer: None,
            heard: Vec::new(),
        })
    }

    fn perform(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Ask(command, arguments) => {
                let arguments = match arguments.as_str().and_then(|a| a.strip_prefix('@')) {
                    Some(name) => self.configurations.named(name)?,
                    None => self.names.fill(arguments)?,
                };
                self.heard.push(format!("> {command} {arguments}"));
                let seq = self
                    .client
                    .ask(command, &arguments)
                    .map_err(|e| e.to_string())?;
                let answer = self.answered(seq)?;
                self.answer = Some(answer);
                Ok(())
            }
            Action::Answer(expected) => {
                let answer = self.last_answer(true)?;
                match self.names.fits(expected, &answer["body"]) {
                    true => Ok(()),
                    false => Err(format!("not {expected}")),
                }
            }
            Action::Refusal(pattern) => {
                let answer = self.last_answer(false)?;
                let message = &answer["message"];
                match self.names.fits(&json!(pattern), message) {
                    true => Ok(()),
                    false => Err(format!("not '{pattern}' but {message}")),
                }
            }
            Action::Event(name, expected) => self.event(name, expected),
            Action::Raw(bytes) => {
                self.answer = None;
                self.client.send(bytes).map_err(|e| e.to_string())
            }
            Action::Kill(name) => match self.client.kill(name) {
                1 => Ok(()),
                n => Err(format!("{n} processes are called {name}")),
            },
            Action::Close => {
                self.client.close();
                Ok(())
            }
            Action::End(status) => {
                while let Some(message) = self.client.listen() {
                    self.take(message);
                }
                if let Some(event) = self.events.iter().find(|e| is_told(e)) {
                    return Err(format!("an event without a request: {event}"));
                }
                let ended = self.client.end()?;
                match ended.code() == Some(*status) {
                    true => Ok(()),
                    false => Err(format!("the adapter ended with {ended}")),
                }
            }
        }
    }

    /// The last answer; `success` says whether it must be a success.
    fn last_answer(&mut self, success: bool) -> Result<Value, String> {
        let answer = match self.answer.take() {
            Some(answer) => answer,
            // The answer to bytes that are not a request.
            None => self.answered(0)?,
        };
        match answer["success"] == json!(success) {
            true => Ok(answer),
            false => Err(format!("the answer is {answer}")),
        }
    }

    fn answered(&mut self, seq: i64) -> Result<Value, String> {
        loop {
            let message = self.client.listen().ok_or("no answer comes")?;
            if message["type"] == json!("response") {
                self.heard.push(format!("= {message}"));
                return match message["request_seq"] == json!(seq) {
                    true => Ok(message),
                    false => Err(format!("the answer to another request: {message}")),
                };
            }
            self.take(message);
        }
    }

    fn take(&mut self, message: Value) {
        self.heard.push(format!("* {message}"));
        self.events.push_back(message);
    }

    fn event(&mut self, name: &str, expected: &Value) -> Result<(), String> {
        loop {
            let event = match self.events.pop_front() {
                Some(event) => event,
                None => {
                    let message = self.client.listen().ok_or("no event comes")?;
                    self.heard.push(format!("* {message}"));
                    message
                }
            };
            let body = match &event["body"] {
                Value::Null => &json!({}),
                body => body,
            };
            let expected = match expected {
                Value::Null => &json!({}),
                expected => expected,
            };
            if event["event"] == json!(name) && self.names.fits(expected, body) {
                return Ok(());
            }
            if is_told(&event) {
                return Err(format!("not {name} {expected} but {event}"));
            }
        }
    }
}

fn is_told(event: &Value) -> bool {
    TOLD.iter().any(|name| event["event"] == json!(name))
}
