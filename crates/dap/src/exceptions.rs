//! Stops at signals and at exceptions.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::answers::{Answer, arguments};
use crate::capabilities::FILTERS;
use crate::session::Session;

#[derive(Deserialize)]
struct SetExceptionBreakpoints {
    #[serde(default)]
    filters: Vec<String>,
}

/// Signals at which gdb does not stop by default.
const QUIET: &str = "SIGALRM SIGURG SIGIO SIGVTALRM SIGPROF SIGCHLD SIGPOLL SIGWINCH SIGLWP \
                     SIGPRIO SIGCANCEL SIGLIBRT";

impl Session {
    pub(crate) fn set_exception_breakpoints(&mut self, given: &Json) -> Answer {
        let set: SetExceptionBreakpoints = arguments(given)?;
        let is_on = |filter: &str| set.filters.iter().any(|f| f == filter);
        let mut shown = Vec::new();
        for filter in &set.filters {
            let known = FILTERS.iter().any(|f| f.0 == filter);
            shown.push(match known {
                true => json!({ "verified": true }),
                false => json!({ "verified": false, "message": "there is no such filter" }),
            });
        }
        if self.breakpoints.signals_pass == is_on("signals") {
            self.breakpoints.signals_pass = !is_on("signals");
            let what = match self.breakpoints.signals_pass {
                true => "nostop noprint",
                false => "stop print",
            };
            self.console(&format!("handle all {what}"))?;
            self.console(&format!("handle {QUIET} nostop noprint"))?;
        }
        for filter in ["throw", "catch"] {
            let catchpoints = &mut self.breakpoints.catchpoints;
            let at = catchpoints.iter().position(|c| c.0 == filter);
            match (at, is_on(filter)) {
                (Some(at), false) => {
                    let (_, number) = catchpoints.remove(at);
                    self.ask(&format!("-break-delete {number}"))?;
                }
                (None, true) => {
                    let answer = self.ask(&format!("-catch-{filter}"))?;
                    let number = answer.get("bkpt").and_then(|b| b.number("number"));
                    let number = number.ok_or("gdb gave no number")?;
                    self.breakpoints.catchpoints.push((filter, number));
                }
                _ => {}
            }
        }
        Ok(json!({ "breakpoints": shown }))
    }
}
