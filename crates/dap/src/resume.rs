//! Resuming, in both directions, and interrupting.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::answers::{Answer, Refusal, arguments};
use crate::mi::quote;
use crate::run::{Run, Way};
use crate::session::{Handler, Session};

/// Arguments of the steps.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    thread_id: i64,
    #[serde(default)]
    granularity: Option<String>,
}

/// gdb's message where there is no line information.
const NO_BOUNDS: &str = "Cannot find bounds of current function";

impl Session {
    /// Tells gdb to resume.
    pub(crate) fn resume(&mut self, command: &str, run: Run) -> Result<(), Refusal> {
        self.forget();
        self.running = Some(run);
        self.interrupted = false;
        self.at_an_end = false;
        let answer = self.ask(command);
        if answer.is_err() && self.stop.is_none() {
            self.running = None;
        }
        answer.map(drop)
    }

    /// Drops state that is valid for one stop only.
    pub(crate) fn forget(&mut self) {
        self.frames.clear();
        self.containers.clear();
        for name in std::mem::take(&mut self.objects) {
            // The answer is ignored; without gdb there is nothing to delete.
            let _ = self.send(&format!("-var-delete {}", quote(&name)));
        }
    }

    /// Handles a request while the recording runs: interrupts it for that, and then resumes in the
    /// same direction, unless it stopped for another reason meanwhile.
    pub(crate) fn halted(&mut self, handler: Handler, given: &Json) -> Answer {
        let Some(run) = self.running else {
            return handler(self, given);
        };
        self.interrupt()?;
        while self.running.is_some() {
            let record = self.receive()?;
            self.note(record);
        }
        let ours = self.stop.as_ref().is_some_and(|s| {
            s.text("reason") == Some("signal-received") && s.text("signal-name") == Some("SIGINT")
        });
        self.interrupted = ours;
        let answer = handler(self, given);
        if ours {
            self.stop = None;
            let command = match run.way {
                Way::Forward => "-exec-continue",
                Way::Back => "-exec-continue --reverse",
            };
            self.resume(command, run)?;
        }
        answer
    }

    fn interrupt(&mut self) -> Result<(), Refusal> {
        // gdb reports the interrupt as the signal, which may also be one of the recording.
        self.interrupted = true;
        self.ask("-exec-interrupt").map(drop)
    }

    pub(crate) fn go_on(&mut self, _: &Json) -> Answer {
        self.resume("-exec-continue", Run::go(Way::Forward))?;
        Ok(json!({ "allThreadsContinued": true }))
    }

    pub(crate) fn go_back(&mut self, _: &Json) -> Answer {
        self.resume("-exec-continue --reverse", Run::go(Way::Back))?;
        Ok(Json::Null)
    }

    pub(crate) fn next(&mut self, given: &Json) -> Answer {
        self.step(given, "next", Way::Forward)
    }

    pub(crate) fn step_in(&mut self, given: &Json) -> Answer {
        self.step(given, "step", Way::Forward)
    }

    pub(crate) fn step_back(&mut self, given: &Json) -> Answer {
        self.step(given, "next", Way::Back)
    }

    fn step(&mut self, given: &Json, what: &str, way: Way) -> Answer {
        let step: Step = arguments(given)?;
        let thread = self.thread(step.thread_id)?;
        let back = match way {
            Way::Forward => "",
            Way::Back => " --reverse",
        };
        let one = format!("-exec-{what}-instruction --thread {thread}{back}");
        if step.granularity.as_deref() == Some("instruction") {
            self.resume(&one, Run::step(way))?;
            return Ok(Json::Null);
        }
        let line = format!("-exec-{what} --thread {thread}{back}");
        match self.resume(&line, Run::step(way)) {
            // Without lines a step is an instruction.
            Err(refusal) if refusal.message.contains(NO_BOUNDS) => {
                self.resume(&one, Run::step(way))?;
            }
            other => other?,
        }
        Ok(Json::Null)
    }

    pub(crate) fn step_out(&mut self, given: &Json) -> Answer {
        let step: Step = arguments(given)?;
        let thread = self.thread(step.thread_id)?;
        let command = format!("-exec-finish --thread {thread} --frame 0");
        self.resume(&command, Run::step(Way::Forward))?;
        Ok(Json::Null)
    }

    pub(crate) fn pause(&mut self, _: &Json) -> Answer {
        if self.running.is_some() {
            self.interrupt()?;
        }
        Ok(Json::Null)
    }

    /// Goes back to the start of the process.
    pub(crate) fn restart(&mut self, _: &Json) -> Answer {
        self.go_to("start")?;
        Ok(Json::Null)
    }

    /// Goes to another place of the recording, with the command that `relive debug` defines in gdb.
    pub(crate) fn go_to(&mut self, place: &str) -> Result<String, Refusal> {
        self.forget();
        self.running = Some(Run::GOTO);
        self.interrupted = false;
        self.at_an_end = false;
        let said = self.console(&format!("relive goto {place}"));
        if said.is_err() && self.stop.is_none() {
            self.running = None;
        }
        said
    }
}
