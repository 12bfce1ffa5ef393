//! One race as it is shown: both accesses with their stacks, and the variable.

use std::io::Write;

use relive_engine::Failure;
use relive_engine::timeline::{
    AtStop, Race, RaceAccess, RunRequest, Spot, StopSet, Timeline, Uninterrupted,
};
use relive_gdb::At;
use relive_symbols::{Named, Type};
use serde_json::{Value, json};

use super::places::{Modules, frames_at, spot};
use crate::names::{self, ReplayedGuest};
use crate::output::Stop;
use crate::{command_line, query, traces};

/// Bytes of which the value is shown.
const MOST_VALUE: u64 = 16;

/// A race.
pub struct Report {
    race: Race,
    variable: Option<RacyVariable>,
    sides: [Side; 2],
}

/// The memory that both accesses are about.
struct RacyVariable {
    name: String,
    of: Option<String>,
}

/// One access.
struct Side {
    access: RaceAccess,
    process: u32,
    tid: Option<u32>,
    spot: Spot,
    stack: Vec<Named>,
    /// The accessed bytes right before it.
    before: Option<Vec<u8>>,
    /// And right behind.
    after: Option<Vec<u8>>,
}

impl Report {
    /// Goes to both accesses and looks.
    ///
    /// # Errors
    /// Divergence.
    pub fn of(
        timeline: &mut Timeline,
        modules: &mut Modules,
        race: &Race,
    ) -> Result<Self, Failure> {
        let (first, named) = Side::of(timeline, modules, &race.first)?;
        let (second, again) = Side::of(timeline, modules, &race.second)?;
        Ok(Self {
            race: *race,
            variable: match (named, again) {
                (Some(named), Some(again)) if named.of.is_none() => Some(again),
                (named, again) => named.or(again),
            },
            sides: [first, second],
        })
    }

    /// The two places in the source, in any order of time, by instructions where lines are not known;
    /// and the variable without its indices.
    pub fn places(&self) -> ([String; 2], Option<String>) {
        let mut places = self.sides.each_ref().map(Side::place);
        places.sort();
        let variable = self.variable_name().map(without_indices);
        (places, variable)
    }

    /// Counts another race of the same places.
    pub fn merge(&mut self, other: &Self) {
        self.race.count += other.race.count;
    }

    /// All functions on both stacks.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.frames().flat_map(|named| {
            let symbol = named.symbol.as_ref().map(|(name, _)| name.as_str());
            let lines = named
                .lines
                .iter()
                .filter_map(|line| line.function.as_deref());
            symbol.into_iter().chain(lines)
        })
    }

    /// All source files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let lines = self.frames().flat_map(|named| &named.lines);
        lines.filter_map(|line| line.file.as_deref())
    }

    /// All modules.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.frames().filter_map(|named| named.module.as_deref())
    }

    /// The name of the variable.
    pub fn variable_name(&self) -> Option<&str> {
        self.variable
            .as_ref()
            .map(|variable| variable.name.as_str())
    }

    fn frames(&self) -> impl Iterator<Item = &Named> {
        self.sides.iter().flat_map(|side| &side.stack)
    }

    /// Shows it as text; `trace`: the recording as the user named it, and a space behind that.
    ///
    /// # Errors
    /// Of the output.
    pub fn show(&self, out: &mut dyn Write, number: usize, trace: &str) -> Result<(), Stop> {
        let what = match &self.variable {
            Some(RacyVariable { name, of: Some(of) }) => format!("{name} ({of}), "),
            Some(RacyVariable { name, of: None }) => format!("{name}, "),
            None => String::new(),
        };
        let Race { first, count, .. } = &self.race;
        let times = match count {
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        writeln!(
            out,
            "race {number}: {what}{} bytes at {:#x}, seen {times}",
            first.size, first.addr
        )?;
        for side in &self.sides {
            side.show(out, trace)?;
        }
        writeln!(out)?;
        Ok(())
    }

    /// As JSON.
    pub fn object(&self) -> Value {
        let sides: Vec<Value> = self.sides.iter().map(Side::object).collect();
        json!({
            "address": self.race.first.addr,
            "size": self.race.first.size,
            "count": self.race.count,
            "variable": self.variable.as_ref().map(|v| json!({ "name": v.name, "type": v.of })),
            "accesses": sides,
        })
    }
}

impl Side {
    fn of(
        timeline: &mut Timeline,
        modules: &mut Modules,
        access: &RaceAccess,
    ) -> Result<(Self, Option<RacyVariable>), Failure> {
        let spot = spot(timeline, access);
        traces::go(timeline, At::Spot(spot))?;
        let space = modules.at(timeline, access.pc);
        let (frames, seen) = frames_at(timeline, space, access.thread)?;
        let mut stack: Vec<Named> = frames.iter().map(|f| space.name(f.lookup)).collect();
        if stack.is_empty() {
            stack.push(space.name(access.pc));
        }
        let seen = seen.unwrap_or_default();
        let holder = space.holder(&mut ReplayedGuest(timeline.guest()), access.addr, &seen);
        let variable = holder.map(|holder| RacyVariable {
            name: holder.name,
            of: holder.of.as_ref().map(Type::name),
        });
        let (before, after) = values(timeline, access)?;
        let status = timeline.status();
        let threads = timeline.guest().threads()?;
        let tid = threads
            .iter()
            .find(|t| t.index == access.thread)
            .map(|t| t.tid);
        let side = Self {
            access: *access,
            process: status.process,
            tid,
            spot,
            stack,
            before,
            after,
        };
        Ok((side, variable))
    }

    fn place(&self) -> String {
        let process = self.process;
        let line = self.stack.first().and_then(|named| named.lines.first());
        match line.and_then(names::line_text) {
            Some(text) => format!("p{process} {text}"),
            None => format!("p{process} {:#x}", self.access.pc),
        }
    }

    fn how(&self) -> String {
        let kind = if self.access.writes { "write" } else { "read" };
        match self.access.call.map(|nr| relive_kabi::row(nr.into())) {
            None => kind.to_owned(),
            Some(Some(row)) => format!("{kind} by {}(2)", row.name),
            Some(None) => format!("{kind} by a system call"),
        }
    }

    fn show(&self, out: &mut dyn Write, trace: &str) -> Result<(), Stop> {
        let tid = self
            .tid
            .map_or(String::new(), |tid| format!(" (thread {tid})"));
        let values = match (&self.before, &self.after) {
            (Some(before), Some(after)) if self.access.writes => {
                format!(": {} -> {}", number(before), number(after))
            }
            (Some(before), _) => format!(": {}", number(before)),
            _ => String::new(),
        };
        let how = self.how();
        writeln!(
            out,
            "  {how} by p{}.t{}{tid}{values}",
            self.process, self.access.thread
        )?;
        for (n, named) in self.stack.iter().enumerate() {
            for (i, line) in named
                .lines
                .iter()
                .enumerate()
                .take(named.lines.len().saturating_sub(1))
            {
                let function = line.function.as_deref().unwrap_or("??");
                let at = names::line_text(line).map_or(String::new(), |text| format!(" at {text}"));
                let n = if i == 0 {
                    format!("#{n}")
                } else {
                    String::new()
                };
                writeln!(out, "    {n:<4}{function} (inlined){at}")?;
            }
            let mut own = named.clone();
            own.lines.drain(..named.lines.len().saturating_sub(1));
            if let (Some((_, offset)), Some(line)) = (&mut own.symbol, own.lines.first())
                && line.line.is_some()
            {
                *offset = 0;
            }
            let n = format!("#{n}");
            writeln!(out, "    {n:<4}{}", names::text(&own))?;
        }
        let relive = command_line::own_name();
        writeln!(out, "    {relive} debug {trace}--at {}", self.spot)?;
        Ok(())
    }

    fn object(&self) -> Value {
        let frames: Vec<Value> = self.stack.iter().map(names::object).collect();
        json!({
            "access": if self.access.writes { "write" } else { "read" },
            "call": self.access.call.and_then(|nr| relive_kabi::row(nr.into())).map(|row| row.name),
            "process": self.process,
            "thread": self.access.thread,
            "tid": self.tid,
            "event": self.access.event,
            "tick": self.access.tick,
            "pc": self.access.pc,
            "at": self.spot.to_string(),
            "before": self.before.as_deref().map(query::hex),
            "after": self.after.as_deref().map(query::hex),
            "frames": frames,
        })
    }
}

/// `table[].count` of `table[3].count`.
fn without_indices(name: &str) -> String {
    let mut inside = false;
    let shown = |c: char| match c {
        '[' => !std::mem::replace(&mut inside, true),
        ']' => std::mem::replace(&mut inside, false),
        _ => !inside,
    };
    let mut shown = shown;
    name.chars().filter(|c| shown(*c)).collect()
}

/// Accessed bytes: right before, and right behind.
type Values = (Option<Vec<u8>>, Option<Vec<u8>>);

/// The accessed bytes right before and right behind an instruction at which the timeline stands.
fn values(timeline: &mut Timeline, access: &RaceAccess) -> Result<Values, Failure> {
    if access.call.is_some() || access.size > MOST_VALUE {
        return Ok((None, None));
    }
    let slot = timeline.status().slot;
    let mut host = timeline.guest().fork()?;
    let before = host.read(access.addr, access.size)?;
    let step = RunRequest {
        until: None,
        with_end: false,
        step: Some((slot, 1)),
        search: AtStop::Last,
        leave: true,
        work: None,
        output: false,
        fast: false,
    };
    host.run(&step, &StopSet::default(), &mut Uninterrupted)?;
    let after = host.read(access.addr, access.size)?;
    Ok((Some(before), Some(after)))
}

/// A value as a number, if it can be one.
fn number(bytes: &[u8]) -> String {
    let mut whole = [0; 8];
    match whole.get_mut(..bytes.len()) {
        Some(part) if matches!(bytes.len(), 1 | 2 | 4 | 8) => {
            part.copy_from_slice(bytes);
            match u64::from_le_bytes(whole) {
                n @ 0..=0xffff => n.to_string(),
                n => format!("{n:#x}"),
            }
        }
        _ => query::hex(bytes),
    }
}
