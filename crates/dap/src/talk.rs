//! Commands to gdb and their answers, and the records in between.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde_json::json;

use crate::answers::Refusal;
use crate::event::Event;
use crate::gdb::Gdb;
use crate::mi::{Record, Value};
use crate::run::Run;
use crate::session::{BEAT, Session};

/// How long the last output of a dead gdb may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Part of a warning that does not apply: the files are read out of the recording.
const SLOW: &str = "File transfers from remote targets can be slow";

/// gdb's messages at an end of the recording; not all versions give it as the reason.
const NO_HISTORY: [&str; 2] = [
    "No more reverse-execution history",
    "Reached end of recorded history",
];

impl Session {
    /// Sends a command without waiting for its answer.
    pub(crate) fn send(&mut self, command: &str) -> Result<u64, Refusal> {
        let gone = || Refusal::from("gdb is gone");
        let gdb = self.gdb.as_mut().ok_or_else(gone)?;
        gdb.send(command).map_err(|_| gone())
    }

    /// gdb's answer to a command.
    ///
    /// # Errors
    /// gdb's error, or that the session ends.
    pub(crate) fn ask(&mut self, command: &str) -> Result<Value, Refusal> {
        let wanted = self.send(command)?;
        loop {
            match self.receive()? {
                Record::Result {
                    token: Some(token),
                    class,
                    results,
                } if token == wanted => {
                    return match class.as_str() {
                        "error" => Err(results.text("msg").unwrap_or("gdb: error").into()),
                        _ => Ok(results),
                    };
                }
                other => self.note(other),
            }
        }
    }

    /// The console output of a command.
    ///
    /// # Errors
    /// As of [`Session::ask`].
    pub(crate) fn console(&mut self, command: &str) -> Result<String, Refusal> {
        let command = crate::mi::quote(command);
        let (answer, heard) = self.overhear(&format!("-interpreter-exec console {command}"));
        answer.map(|_| heard)
    }

    /// gdb's answer to a command, and its console output meanwhile.
    pub(crate) fn overhear(&mut self, command: &str) -> (Result<Value, Refusal>, String) {
        self.heard = Some(String::new());
        let answer = self.ask(command);
        (answer, self.heard.take().unwrap_or_default())
    }

    /// The next record from gdb; other events are deferred.
    ///
    /// # Errors
    /// The client disconnects, or gdb is gone.
    pub(crate) fn receive(&mut self) -> Result<Record, Refusal> {
        loop {
            if self.leaving {
                return Err("the session ends".into());
            }
            match self.events.recv_timeout(BEAT) {
                Ok(Event::Gdb(record)) => return Ok(record),
                Ok(Event::Said(line)) => self.hear(line),
                Ok(Event::AllSaid) => {}
                Ok(Event::GdbGone) => self.lose_gdb(),
                Ok(event) => {
                    self.leaving = match &event {
                        Event::ClientGone(_) => true,
                        Event::Request(r) => {
                            matches!(r.command.as_str(), "disconnect" | "terminate")
                        }
                        _ => false,
                    };
                    self.waiting.push_back(event);
                }
                Err(RecvTimeoutError::Timeout) => self.look_after_gdb(),
                Err(RecvTimeoutError::Disconnected) => self.lose_gdb(),
            }
            if self.gdb.is_none() {
                return Err("gdb is gone".into());
            }
        }
    }

    /// Handles a record that is not an awaited answer.
    pub(crate) fn note(&mut self, record: Record) {
        match record {
            Record::Exec { class, results } => match class.as_str() {
                "running" if self.running.is_none() => {
                    // It was resumed by a command of the console.
                    self.forget();
                    self.running = Some(Run::CONSOLE);
                    if self.configured {
                        let body = json!({ "threadId": 0, "allThreadsContinued": true });
                        self.pen.event("continued", body);
                    }
                }
                "stopped" => {
                    self.ran = self.running.take();
                    self.stop = Some(results);
                }
                _ => {}
            },
            Record::Notify { class, results } if class == "breakpoint-modified" => {
                self.note_breakpoint(&results);
            }
            Record::Console(text) | Record::Target(text)
                if self.heard.is_some() && !self.is_going() =>
            {
                self.heard.get_or_insert_default().push_str(&text);
            }
            // gdb's messages about files and stops for a user of its console.
            Record::Console(text) if !self.configured || self.is_silent() => {
                self.at_an_end |= NO_HISTORY.iter().any(|n| text.contains(n));
            }
            Record::Target(text) if self.running.is_some() => self.hear_target(text),
            Record::Console(text) | Record::Target(text) => self.hear(text),
            Record::Log(text) if text.contains(SLOW) => {}
            Record::Log(text) if self.heard.is_some() => {
                self.heard.get_or_insert_default().push_str(&text);
            }
            Record::Log(text) if !self.configured || text.starts_with("warning") => {
                self.hear(text);
            }
            _ => {}
        }
    }

    /// Whether the recording runs, other than to another place.
    fn is_going(&self) -> bool {
        self.running.is_some_and(|run| run != Run::GOTO)
    }

    /// Whether gdb runs a request of the client, not a command of its console.
    fn is_silent(&self) -> bool {
        self.running.is_some_and(|run| run != Run::CONSOLE)
    }

    /// Passes a message on to the user.
    pub(crate) fn hear(&mut self, text: String) {
        let line = text.trim_end();
        if line.is_empty() {
            return;
        }
        self.pen.say("console", &format!("{line}\n"));
        self.note_end(line);
        self.said.push(line.to_owned());
    }

    pub(crate) fn look_after_gdb(&mut self) {
        if self.gdb.as_ref().is_some_and(Gdb::has_ended) {
            self.lose_gdb();
        }
    }

    /// gdb or the replay has ended by itself.
    pub(crate) fn lose_gdb(&mut self) {
        let Some(gdb) = self.gdb.take() else { return };
        let status = gdb.end();
        while let Ok(Event::Said(line)) = self.events.recv_timeout(LAST_WORDS) {
            self.hear(line);
        }
        self.running = None;
        self.stop = None;
        self.forget();
        if self.configured {
            let how = status.map_or(String::new(), |s| format!(" ({s})"));
            let text = format!("the debugger of the recording has ended{how}\n");
            self.pen.say("important", &text);
            self.pen.event("terminated", json!({}));
        }
    }
}
