//! The hidden `relive travel`: a timeline moved by lines of text, one answer each. For tests
//! of the engine, which need a replay of a real recording.

use std::io::{BufRead, Write};
use std::sync::Barrier;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus as Exit;
use relive_engine::timeline::{
    RunRequest, StopSet, Stopped, Timeline, Uninterrupted, Watching, Watchpoint, follow,
};

use crate::args::TravelArgs;
use crate::traces;

/// A condition that never holds, as an agent expression of gdb: const8 0, end.
const NEVER: [u8; 3] = [0x22, 0, 0x27];

/// Reads orders and answers them until the end of standard input.
///
/// # Errors
/// An invalid order, or any failure of the replay.
pub fn execute(args: &TravelArgs) -> Result<Exit, Failure> {
    let trace = traces::open(args.trace.trace.as_deref())?;
    let way = follow(&trace, args.process)?;
    let mut timeline = Timeline::open(trace.directory(), &way)?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(Failure::setup)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = order(&mut timeline, &words)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")
            .and_then(|()| out.flush())
            .map_err(Failure::setup)?;
    }
    Ok(Exit::Code(0))
}

/// Runs a copy of each kept snapshot to the end, all at once; returns the outcome of each.
fn race(timeline: &mut Timeline) -> Result<String, Failure> {
    let numbers: Vec<u32> = timeline.kept().map(|(number, _)| number).collect();
    let mut hosts = Vec::new();
    for number in numbers {
        hosts.push(timeline.fork_kept(number)?.0);
    }
    let start = Barrier::new(hosts.len());
    let ends: Vec<Result<String, Failure>> = std::thread::scope(|scope| {
        let racers: Vec<_> = hosts
            .iter_mut()
            .map(|host| {
                scope.spawn(|| {
                    start.wait();
                    let ran = host.run(
                        &RunRequest::to_the_end(),
                        &StopSet::default(),
                        &mut Uninterrupted,
                    )?;
                    Ok(format!("{:?} {:016x}", ran.why, host.checksum()?))
                })
            })
            .collect();
        let join = |racer: std::thread::ScopedJoinHandle<'_, _>| {
            racer
                .join()
                .unwrap_or_else(|_| Err(Failure::internal("a thread of the race panicked")))
        };
        racers.into_iter().map(join).collect()
    });
    Ok(ends.into_iter().collect::<Result<Vec<_>, _>>()?.join(", "))
}

fn order(timeline: &mut Timeline, words: &[&str]) -> Result<String, Failure> {
    let number = |i: usize| -> Result<u64, Failure> {
        let word = words.get(i).copied().unwrap_or("");
        let parsed = match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => word.parse(),
        };
        parsed.map_err(|_| Failure::setup(format!("'{word}' is no number")))
    };
    let slot = timeline.status().slot;
    let stopped = match words.first().copied().unwrap_or("") {
        "start" => timeline.goto_start()?,
        "end" => timeline.goto_end(&mut Uninterrupted)?,
        "crash" => timeline.goto_crash(&mut Uninterrupted)?,
        "event" => timeline.goto_event(number(1)?, &mut Uninterrupted)?,
        "step" => timeline.step(slot, number(1).unwrap_or(1), &mut Uninterrupted)?,
        "back" => timeline.step_back(slot, &mut Uninterrupted)?,
        "continue" => timeline.forward(&mut Uninterrupted)?,
        "reverse" => timeline.backward(&mut Uninterrupted)?,
        "break" => {
            let at = number(1)?;
            timeline.stops.breakpoints.push(at);
            if words.get(2) == Some(&"never") {
                timeline.stops.conditions.push((at, vec![NEVER.to_vec()]));
            }
            Stopped::There
        }
        kind @ ("watch" | "access") => {
            let writes = kind == "watch";
            timeline.stops.watchpoints.push(Watchpoint {
                addr: number(1)?,
                len: number(2)?,
                kind: if writes {
                    Watching::Writes
                } else {
                    Watching::Both
                },
            });
            Stopped::There
        }
        "signals" => {
            timeline.stops.signals = true;
            Stopped::There
        }
        "clear" => {
            timeline.stops = Default::default();
            Stopped::There
        }
        "read" => {
            let bytes = timeline.guest().read(number(1)?, number(2)?)?;
            return Ok(bytes.iter().map(|b| format!("{b:02x}")).collect());
        }
        "checksum" => return Ok(format!("{:016x}", timeline.guest().checksum()?)),
        "snapshots" => {
            let (all, bytes) = timeline.snapshots();
            return Ok(format!("{} {bytes}", all.len()));
        }
        "images" => return Ok(timeline.images().to_string()),
        "image" => timeline.goto_image(number(1)? as usize)?,
        "keep" => return Ok(timeline.keep()?.to_string()),
        "kept" => timeline.goto_kept(number(1)? as u32)?,
        "drop" => {
            timeline.drop_kept(number(1)? as u32)?;
            Stopped::There
        }
        "race" => return race(timeline),
        "where" => Stopped::There,
        other => return Err(Failure::setup(format!("'{other}' is no order"))),
    };
    let s = timeline.status();
    Ok(format!(
        "{stopped:?} event={} tick={} steps={:?} thread={} pc={:#x} ended={:?}",
        s.point.event, s.point.ticks, s.point.steps, s.thread, s.pc, s.ended
    ))
}
