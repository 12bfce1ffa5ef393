//! Positions between events as people write them, and as the commands print them.

use std::fmt;
use std::str::FromStr;

use super::present::{Stopped, Timeline};
use super::replay_process::{Interrupter, ReplayProcess};
use super::route::{DrivenReplay, Route};
use super::travel::run_to;
use crate::failure::{Failure, Result};
use crate::guide::point::{Point, Steps};
use crate::guide::protocol::{ReplayStatus, RunRequest, StopReason, StopSet};

/// Where behind a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fine {
    /// So many instructions.
    Steps(u64),
    /// Where the thread first has this pc. Between two ticks none comes twice.
    Pc(u64),
    /// Right before the next event.
    Event,
}

/// A position of a process. With an event and a thread a tick is unique: a thread that leaves a
/// turn comes back by an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Events of the process before it.
    pub event: u64,
    /// Ticks of the thread.
    pub tick: u64,
    /// Where behind that.
    pub fine: Fine,
    /// Index of the thread; without it the first one that comes to this tick.
    pub thread: Option<u32>,
    /// Index of the process, if it was said.
    pub process: Option<u32>,
}

impl Spot {
    /// Where a replay stands.
    #[must_use]
    pub fn of(status: &ReplayStatus) -> Self {
        Self {
            event: status.point.event,
            tick: status.point.ticks,
            fine: match status.point.steps {
                Steps::Exact(n) => Fine::Steps(n),
                Steps::Event => Fine::Event,
                Steps::At { pc, .. } => Fine::Pc(pc),
            },
            thread: Some(status.thread),
            process: Some(status.process),
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.event, self.tick)?;
        match self.fine {
            Fine::Steps(0) => {}
            Fine::Steps(n) => write!(f, "+{n}")?,
            Fine::Pc(pc) => write!(f, "@{pc:#x}")?,
            Fine::Event => write!(f, "!")?,
        }
        match (self.process, self.thread) {
            (Some(process), Some(thread)) => write!(f, "/p{process}.t{thread}"),
            (None, Some(thread)) => write!(f, "/t{thread}"),
            _ => Ok(()),
        }
    }
}

/// A text that names no position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no position: EVENT:TICK, EVENT:TICK+N or EVENT:TICK@PC")]
pub struct NoSpot(String);

impl FromStr for Spot {
    type Err = NoSpot;

    /// `EVENT:TICK`, and behind it `+INSTRUCTIONS`, `@PC` or `!`, and `/tN` or `/pN.tN`; or a
    /// position in the words of the commands.
    fn from_str(text: &str) -> std::result::Result<Self, NoSpot> {
        let spot = compact(text).or_else(|| worded(text));
        spot.ok_or_else(|| NoSpot(text.to_owned()))
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `tN` or `pN.tN`.
fn thread(text: &str) -> Option<(Option<u32>, u32)> {
    let (process, thread) = match text.split_once('.') {
        Some((process, thread)) => (Some(process.strip_prefix('p')?.parse().ok()?), thread),
        None => (None, text),
    };
    Some((process, thread.strip_prefix('t')?.parse().ok()?))
}

fn compact(text: &str) -> Option<Spot> {
    let (place, id) = match text.split_once('/') {
        Some((place, id)) => (place, Some(thread(id)?)),
        None => (text, None),
    };
    let (event, rest) = place.split_once(':')?;
    let (tick, fine) = if let Some(tick) = rest.strip_suffix('!') {
        (tick, Fine::Event)
    } else if let Some((tick, n)) = rest.split_once('+') {
        (tick, Fine::Steps(number(n)?))
    } else if let Some((tick, pc)) = rest.split_once('@') {
        (tick, Fine::Pc(number(pc)?))
    } else {
        (rest, Fine::Steps(0))
    };
    Some(Spot {
        event: number(event)?,
        tick: number(tick)?,
        fine,
        thread: id.map(|(_, thread)| thread),
        process: id.and_then(|(process, _)| process),
    })
}

/// A position in a line of Relive's own output, with any text around it.
fn worded(text: &str) -> Option<Spot> {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || ",;()".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    let behind = |name: &str| {
        let mut pairs = words.windows(2).filter(|pair| pair[0] == name);
        pairs.find_map(|pair| number(pair[1]))
    };
    let fine = if words.windows(3).any(|w| w == ["at", "the", "event"]) {
        Fine::Event
    } else if let Some(n) = behind("+") {
        Fine::Steps(n)
    } else {
        match behind("pc").or_else(|| behind("at")) {
            Some(pc) => Fine::Pc(pc),
            None => Fine::Steps(0),
        }
    };
    let mut ids = words.iter().filter_map(|word| thread(word));
    let (process, thread) = ids.next_back().map_or((None, None), |(p, t)| (p, Some(t)));
    let index = |word: &&str| word.strip_prefix('p').and_then(|n| n.parse().ok());
    Some(Spot {
        event: behind("event")?,
        tick: behind("tick")?,
        fine,
        thread,
        process: process.or_else(|| words.iter().find_map(index)),
    })
}

impl Timeline {
    /// Goes to a position, exactly.
    ///
    /// # Errors
    /// The recording has none there, or divergence.
    pub fn goto_spot(&mut self, spot: &Spot, wanted: &mut dyn Interrupter) -> Result<Stopped> {
        self.forget_changes();
        let process = self.status.process;
        if spot.process.is_some_and(|asked| asked != process) {
            return Err(Failure::setup(format!(
                "{spot} is a position of another process than p{process}"
            )));
        }
        let Some((host, status)) = self.find(spot, wanted)? else {
            return Ok(Stopped::Interrupted);
        };
        (self.current, self.status) = (host, status);
        Ok(Stopped::There)
    }

    /// A host that stands at a position. `None`: interrupted.
    fn find(
        &mut self,
        spot: &Spot,
        wanted: &mut dyn Interrupter,
    ) -> Result<Option<(ReplayProcess, ReplayStatus)>> {
        if spot.event < self.start.event {
            return Err(Failure::setup(format!(
                "{spot} is before the beginning of the process, which is at {}",
                self.start
            )));
        }
        let (mut host, mut status, why) = self.behind_event(spot.event, wanted)?;
        if why == StopReason::Interrupted {
            return Ok(None);
        }
        let mut seen = Vec::new();
        while status.point.event == spot.event && status.ended.is_none() {
            let first = status.point.ticks;
            let meant = spot.thread.is_none_or(|thread| thread == status.thread);
            let until = match meant && spot.tick >= first {
                true => Point {
                    ticks: spot.tick,
                    steps: Steps::ZERO,
                    ..status.point
                },
                // To where the next turn begins.
                false => Point {
                    turn: status.point.turn + 1,
                    ticks: 0,
                    steps: Steps::ZERO,
                    ..status.point
                },
            };
            let at = until.key();
            let there = match status.point.key() == at {
                true => Some(status),
                false => {
                    let thread = status.thread;
                    let route = Route {
                        from: status,
                        run: run_to(until),
                        stops: &StopSet::default(),
                        present: None,
                    };
                    let ran = self.drive(&mut DrivenReplay::Other(&mut host), &route, wanted)?;
                    if ran.why == StopReason::Interrupted {
                        return Ok(None);
                    }
                    seen.push((thread, first));
                    status = ran.status;
                    (meant && status.point.key() == at).then_some(status)
                }
            };
            if let Some(there) = there {
                return finely(host, there, spot, wanted);
            }
        }
        let end = Spot::of(&status);
        let is_end = status.ended.is_some()
            && (spot.event, spot.tick, spot.fine) == (end.event, end.tick, end.fine)
            && spot.thread.is_none_or(|thread| Some(thread) == end.thread);
        if is_end {
            return Ok(Some((host, status)));
        }
        let ways: Vec<String> = seen
            .iter()
            .map(|(thread, first)| format!("t{thread} from tick {first} on"))
            .collect();
        let ran = match ways.is_empty() {
            true => "the process has fewer events".to_owned(),
            false => format!("behind that event ran {}", ways.join(", then ")),
        };
        Err(Failure::setup(format!(
            "the recording has no position {spot}: {ran}"
        )))
    }
}

/// From a tick on to the position behind it. `None`: interrupted.
fn finely(
    mut host: ReplayProcess,
    status: ReplayStatus,
    spot: &Spot,
    wanted: &mut dyn Interrupter,
) -> Result<Option<(ReplayProcess, ReplayStatus)>> {
    let point = status.point;
    let steps = match spot.fine {
        Fine::Steps(0) => return Ok(Some((host, status))),
        Fine::Steps(n) => Steps::Exact(n),
        Fine::Event => Steps::Event,
        Fine::Pc(pc) => return to_pc(host, status, spot, pc, wanted),
    };
    let ran = host.run(
        &run_to(Point { steps, ..point }),
        &StopSet::default(),
        wanted,
    )?;
    match ran.why {
        StopReason::Until => Ok(Some((host, ran.status))),
        StopReason::Interrupted => Ok(None),
        _ => Err(missed(spot, &ran.status)),
    }
}

fn to_pc(
    mut host: ReplayProcess,
    mut status: ReplayStatus,
    spot: &Spot,
    pc: u64,
    wanted: &mut dyn Interrupter,
) -> Result<Option<(ReplayProcess, ReplayStatus)>> {
    let (key, slot) = (status.point.key(), status.slot);
    while status.pc != pc {
        let step = RunRequest {
            until: Some(Point {
                steps: Steps::Event,
                ..status.point
            }),
            step: Some((slot, 1)),
            ..run_to(status.point)
        };
        let ran = host.run(&step, &StopSet::default(), wanted)?;
        if ran.why == StopReason::Interrupted {
            return Ok(None);
        }
        status = ran.status;
        let stays = ran.why == StopReason::Stepped && status.point.key() == key;
        let there = ran.why == StopReason::Until && status.pc == pc;
        if !(stays || there) {
            return Err(missed(spot, &status));
        }
    }
    Ok(Some((host, status)))
}

fn missed(spot: &Spot, there: &ReplayStatus) -> Failure {
    Failure::setup(format!(
        "the recording has no position {spot}: the thread comes from that tick to {}, pc {:#x}",
        there.point, there.pc
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(event: u64, tick: u64, fine: Fine, ids: (Option<u32>, Option<u32>)) -> Spot {
        let (process, thread) = ids;
        Spot {
            event,
            tick,
            fine,
            thread,
            process,
        }
    }

    #[test]
    fn positions_are_read_as_they_are_written() {
        for one in [
            spot(5, 30, Fine::Steps(0), (None, None)),
            spot(5, 30, Fine::Steps(7), (None, Some(2))),
            spot(0, 0, Fine::Pc(0x401000), (Some(3), Some(2))),
            spot(u64::MAX, 1, Fine::Event, (Some(0), Some(0))),
        ] {
            assert_eq!(one.to_string().parse(), Ok(one), "{one}");
        }
        for wrong in [
            "", "5", "5:", ":5", "5:6/", "5:6/7", "5:6+", "5:6@x", "-1:2", "5:6!+1",
        ] {
            assert!(wrong.parse::<Spot>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn positions_are_read_as_they_are_printed() {
        let read = |text: &str| text.parse::<Spot>();
        assert_eq!(
            read("event 5, tick 30 + 7 instructions; process 12 (p1), thread 13 (t2), pc 0x401000"),
            Ok(spot(5, 30, Fine::Steps(7), (Some(1), Some(2))))
        );
        assert_eq!(
            read("event 5, tick 30, at the event; process 12 (p0), thread 12 (t0), pc 0x40"),
            Ok(spot(5, 30, Fine::Event, (Some(0), Some(0))))
        );
        assert_eq!(
            read("p0.t1 (thread 123), event 5, tick 30, pc 0x401000 in main (a.c:3): 00 -> 01"),
            Ok(spot(5, 30, Fine::Pc(0x401000), (Some(0), Some(1))))
        );
        assert_eq!(
            read("2: event 5, tick 30, at 0x401000 (p0.t1)"),
            Ok(spot(5, 30, Fine::Pc(0x401000), (Some(0), Some(1))))
        );
        assert!(read("event 5, tock 3").is_err());
    }
}
