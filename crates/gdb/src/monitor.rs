//! The client's `monitor` commands.

use gdbstub::common::Signal;
use gdbstub::outputln;
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd};
use relive_engine::Failure;
use relive_engine::timeline::{EventPlace, OTHERS, Spot, Timeline, Uninterrupted};

use crate::at::At;
use crate::debuggee::Debuggee;
use crate::interrupt::Until;
use crate::order::Reason;

const HELP: &str = "\
position           where the replay is
goto start|end|crash|EVENT|EVENT:TICK|EVENT:TICK+N|POSITION   go there; a POSITION is what
                   any command has printed (then `monitor announce`, or any step)
goto tick TICK     go to that tick of the present thread in this stretch of it
announce           the next step makes none: it tells where the program is
checkpoint         keep a snapshot of the present position; answers its number
checkpoints        what is kept so
restart NUMBER     go to a checkpoint (then `monitor announce`, or any step)
delete-checkpoint NUMBER     drop one
snapshots          the snapshots that are kept, and the memory they use
last-write ADDR [LEN]        who wrote there last, before the present position
calls ADDR [MAX]   calls of the function at ADDR over the whole recording
files              files that the trace has copies of";

/// Calls that are listed if the client gives no number.
const CALLS: u64 = 100;
/// Limit on the listed calls: they are in memory until the last one is known.
const MOST_CALLS: u64 = 100_000;
/// Bytes that `last-write` covers by default, and at most.
const WORD: u64 = 8;
const MOST_BYTES: u64 = 4096;

impl MonitorCmd for Debuggee {
    fn handle_monitor_cmd(
        &mut self,
        cmd: &[u8],
        mut out: ConsoleOutput<'_>,
    ) -> Result<(), Failure> {
        let text = String::from_utf8_lossy(cmd).into_owned();
        let words: Vec<&str> = text.split_whitespace().collect();
        let interrupt = self.interrupt.clone();
        let until = &mut Until(interrupt.as_deref());
        // A failure is an answer; the session goes on.
        match self.monitor(&words, until) {
            Ok(lines) => lines.iter().for_each(|line| outputln!(out, "{line}")),
            Err(e) => outputln!(out, "{e}"),
        }
        if interrupt.is_some_and(|i| i.taken.get()) {
            outputln!(out, "interrupted");
        }
        // Wherever it stands now.
        self.look()
    }
}

impl Debuggee {
    fn monitor(&mut self, words: &[&str], until: &mut Until<'_>) -> Result<Vec<String>, Failure> {
        Ok(match words {
            ["position"] => vec![self.position()],
            ["goto", "tick", tick] => {
                let mut point = self.status().point;
                point.ticks = number(tick)?;
                point.steps = relive_engine::timeline::Steps::ZERO;
                self.timeline.goto(point, until)?;
                self.moved()?
            }
            ["goto", place @ ..] if !place.is_empty() => {
                let at: At = place.join(" ").parse().map_err(Failure::setup)?;
                let stopped = at.go(&mut self.timeline, until)?;
                let news = at.news(&self.timeline, stopped);
                news.into_iter().chain(self.moved()?).collect()
            }
            ["announce"] => {
                self.owed = Some(Reason::SignalWithThread {
                    tid: self.tid(self.status().slot),
                    signal: Signal::SIGZERO,
                });
                Vec::new()
            }
            ["checkpoint"] => {
                let number = self.timeline.keep()?;
                vec![format!("checkpoint {number}: {}", self.position())]
            }
            ["checkpoints"] => {
                let kept = self.timeline.kept();
                let lines: Vec<String> = kept
                    .map(|(n, s)| format!("{n}: {} (p{}.t{})", s.point, s.process, s.thread))
                    .collect();
                match lines.is_empty() {
                    true => vec!["no checkpoints".to_owned()],
                    false => lines,
                }
            }
            ["restart", number] => {
                self.timeline.goto_kept(self::number(number)? as u32)?;
                self.moved()?
            }
            ["delete-checkpoint", number] => {
                self.timeline.drop_kept(self::number(number)? as u32)?;
                Vec::new()
            }
            ["snapshots"] => {
                let (all, bytes) = self.timeline.snapshots();
                let mut lines: Vec<String> = all
                    .iter()
                    .map(|s| format!("{} (p{}.t{})", s.point, s.process, s.thread))
                    .collect();
                lines.push(format!("{} snapshots, {} KiB", all.len(), bytes >> 10));
                lines
            }
            ["last-write", addr] => self.last_write(number(addr)?, WORD, until)?,
            ["last-write", addr, len] => self.last_write(number(addr)?, number(len)?, until)?,
            ["calls", addr] => self.calls(number(addr)?, CALLS, until)?,
            ["calls", addr, most] => {
                let most = number(most)?.min(MOST_CALLS);
                self.calls(number(addr)?, most, until)?
            }
            ["files"] => {
                let paths = self.files.paths().map(String::from_utf8_lossy);
                let mut paths: Vec<String> = paths.map(|p| p.into_owned()).collect();
                paths.sort();
                paths
            }
            _ => HELP.lines().map(str::to_owned).collect(),
        })
    }

    fn moved(&mut self) -> Result<Vec<String>, Failure> {
        (self.at_signal, self.astray, self.finished) = (false, None, None);
        self.met = None;
        self.shown.get_or_insert_with(|| self.program.clone());
        self.look()?;
        self.current = Some(self.tid(self.status().slot));
        Ok(vec![self.position()])
    }

    fn position(&self) -> String {
        let s = self.status();
        format!(
            "{}; process {} (p{}), thread {} (t{}), pc {:#x}: {}",
            s.point,
            s.pid,
            s.process,
            s.tid,
            s.thread,
            s.pc,
            Spot::of(&s)
        )
    }

    fn last_write(
        &mut self,
        addr: u64,
        len: u64,
        until: &mut Until<'_>,
    ) -> Result<Vec<String>, Failure> {
        if !(1..=MOST_BYTES).contains(&len) {
            return Err(Failure::setup(format!("1 to {MOST_BYTES} bytes")));
        }
        let found = self.timeline.last_write(addr, len, until)?;
        let Some(w) = found else {
            if until.has_stopped() {
                return Ok(Vec::new());
            }
            return Ok(vec![never_written(&self.timeline).to_owned()]);
        };
        let by = match w.call {
            None => String::new(),
            Some(OTHERS) => ", by another process".to_owned(),
            Some(nr) => match relive_kabi::row(u64::from(nr)) {
                Some(row) => format!(", by {}", row.name),
                None => ", by the delivery of a signal".to_owned(),
            },
        };
        let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
        Ok(vec![
            format!("{}{by}", text(&w.place)),
            format!("before {} after {}", hex(&w.before), hex(&w.after)),
        ])
    }

    fn calls(
        &mut self,
        addr: u64,
        most: u64,
        until: &mut Until<'_>,
    ) -> Result<Vec<String>, Failure> {
        let back = self.status().point;
        self.timeline.goto_start()?;
        let calls = self.timeline.calls(addr, most, until);
        self.timeline.goto(back, &mut Uninterrupted)?;
        let calls = calls?;
        let mut lines: Vec<String> = calls
            .iter()
            .map(|c| {
                let arguments: Vec<String> =
                    c.arguments.iter().map(|a| format!("{a:#x}")).collect();
                let result = c.result.map_or("?".to_owned(), |r| format!("{r:#x}"));
                format!("{}: ({}) = {result}", text(&c.place), arguments.join(", "))
            })
            .collect();
        lines.push(format!("{} calls", calls.len()));
        Ok(lines)
    }
}

fn text(place: &EventPlace) -> String {
    format!(
        "event {}, tick {}, thread {} (t{}), pc {:#x}",
        place.event, place.tick, place.tid, place.thread, place.pc
    )
}

fn number(word: &str) -> Result<u64, Failure> {
    let parsed = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => word.parse(),
    };
    parsed.map_err(|_| Failure::setup(format!("'{word}' is no number")))
}

/// The answer to a question for a write of which there is none.
#[must_use]
pub fn never_written(timeline: &Timeline) -> &'static str {
    match timeline.begins_within() {
        false => "nothing has written there since the process began",
        true => "nothing has written there in this recording: the last write is before it begins",
    }
}
