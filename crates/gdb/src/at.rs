//! Places in a recording where a session can begin.

use std::str::FromStr;

use relive_engine::Failure;
use relive_engine::timeline::{Interrupter, Spot, Stopped, Timeline};

/// The place where a session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// At the process's first instruction.
    Start,
    /// At its end.
    End,
    /// Right before the signal that killed it.
    Crash,
    /// After this many of its events.
    Event(u64),
    /// At a position between two events.
    Spot(Spot),
}

/// A text that names no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no place: start, end, crash, a number of events, EVENT:TICK, or a position as it was printed"
)]
pub struct NoPlace(String);

impl FromStr for At {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        Ok(match text {
            "start" => Self::Start,
            "end" => Self::End,
            "crash" => Self::Crash,
            n => match n.parse() {
                Ok(event) => Self::Event(event),
                Err(_) => Self::Spot(n.parse().map_err(|_| NoPlace(n.to_owned()))?),
            },
        })
    }
}

impl At {
    /// Moves a timeline to the place.
    ///
    /// # Errors
    /// There is no such place, or divergence.
    pub fn go(
        self,
        timeline: &mut Timeline,
        wanted: &mut dyn Interrupter,
    ) -> Result<Stopped, Failure> {
        match self {
            Self::Start => timeline.goto_start(),
            Self::End => timeline.goto_end(wanted),
            Self::Crash => timeline.goto_crash(wanted),
            Self::Event(n) => timeline.goto_event(n, wanted),
            Self::Spot(spot) => timeline.goto_spot(&spot, wanted),
        }
    }

    /// What somebody is to hear who asked for this place, where the timeline stopped so.
    pub fn news(self, timeline: &Timeline, stopped: Stopped) -> Option<String> {
        match (self, stopped) {
            (Self::Crash, Stopped::Hit(_)) => None,
            (Self::Crash, _) => {
                Some("the process was not killed by a signal: this is its end".to_owned())
            }
            (Self::Event(asked), _)
                if asked < timeline.start().event && timeline.begins_within() =>
            {
                Some(format!(
                    "the recording begins behind event {}: this is its beginning",
                    timeline.start().event
                ))
            }
            (Self::Event(asked), Stopped::Ended(_)) => {
                let there = timeline.status().point.event;
                (there < asked)
                    .then(|| format!("the process has {there} events and no more: this is its end"))
            }
            _ => None,
        }
    }
}
