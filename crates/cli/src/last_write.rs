//! `last-write`: finds the last write to memory.

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus as Exit;
use relive_engine::timeline::{
    LastWrite, OTHERS, ReplayProcess, Thread, Timeline, Uninterrupted, follow,
};
use relive_gdb::{At, never_written};
use relive_symbols::{Named, Passing, Space, Type, View, Where, unwind, view};
use serde_json::{Value, json};

use crate::args::LastWriteArgs;
use crate::names::{self, ReplayedGuest};
use crate::output::{self, Stop};
use crate::{query, traces};

/// Bytes that are watched by default.
const WORD: u64 = 8;

/// The memory to watch.
struct Goal {
    addr: u64,
    len: u64,
    /// The variable, if the memory was given by name.
    variable: Option<Variable>,
}

/// A variable, with the data for showing its values.
struct Variable {
    name: String,
    size: u64,
    of: Option<Type>,
    space: Space,
}

/// Finds the last write to an address.
///
/// # Errors
/// Any failure of the replay.
pub fn execute(args: &LastWriteArgs) -> Result<Exit, Failure> {
    let trace = traces::open_to_replay(args.trace.trace.as_deref())?;
    let at = args.at.or(args.before).unwrap_or(At::End);
    let process = traces::process(&trace, args.process, at)?;
    let mut timeline = Timeline::open(trace.directory(), &follow(&trace, process)?)?;
    timeline.search_with(traces::jobs(args.jobs))?;
    if let Some(addr) = &args.addr {
        timeline.note_writes(addr.0, args.len.unwrap_or(WORD));
    }
    traces::go(&mut timeline, at)?;
    let goal = match (&args.addr, &args.var) {
        (Some(addr), _) => Goal {
            addr: addr.0,
            len: args.len.unwrap_or(WORD),
            variable: None,
        },
        (None, Some(text)) => named(&mut timeline, text, args)?,
        (None, None) => return Err(Failure::internal("one of two arguments is required")),
    };
    if let (Some(before), Some(_)) = (args.before, args.at) {
        traces::go(&mut timeline, before)?;
    }
    // The targets of pointers are those at that time.
    let mut values = Vec::new();
    let variable = goal.variable.as_ref();
    // Another program may run at the timeline's place.
    let (folder, mut space) = (timeline.trace().to_owned(), None);
    let mut look = |host: &mut ReplayProcess| {
        space.get_or_insert_with(|| names::space_of(host, &folder));
        values.extend(variable.and_then(|v| v.value(host, goal.addr, goal.len)));
    };
    let found = timeline.last_write_seen(goal.addr, goal.len, &mut Uninterrupted, &mut look)?;
    let code = found.as_ref().zip(space);
    let code = code.map(|(w, space)| space.name(w.place.pc));
    let found = found.as_ref().zip(code.as_ref());
    let shown: Option<[String; 2]> = values.try_into().ok();
    output::print(|out| {
        let text = match (found, args.json) {
            (Some((w, code)), true) => object(w, code, &goal, shown.as_ref()).to_string(),
            (None, true) => Value::Null.to_string(),
            (Some((w, code)), false) => text(w, code, &goal, shown.as_ref()),
            (None, false) => never_written(&timeline).to_owned(),
        };
        writeln!(out, "{text}").map_err(Stop::from)
    })
}

/// The memory of a variable, as seen from the timeline's position.
fn named(timeline: &mut Timeline, text: &str, args: &LastWriteArgs) -> Result<Goal, Failure> {
    let space = names::space(timeline);
    let from = viewed(timeline, &space, args)?;
    let variable = space
        .variable(&mut ReplayedGuest(timeline.guest()), text, &from)
        .map_err(|e| Failure::setup(e.to_string()));
    let variable = match variable {
        // A library that is not mapped yet is there at the end, unless it was unmapped again.
        Err(e) if args.at.is_none() && args.before.is_some() => {
            timeline.goto_end(&mut Uninterrupted)?;
            let space = names::space(timeline);
            let found = space.variable(&mut ReplayedGuest(timeline.guest()), text, &from);
            found.map_err(|_| e)?
        }
        found => found?,
    };
    let addr = match variable.place {
        Where::Memory(at) => at,
        Where::Register(_) => return Err(no_memory(text, "in a register there")),
        Where::Value(_) => return Err(no_memory(text, "a constant there, without memory")),
        Where::Pieces(_) => return Err(no_memory(text, "in several pieces there")),
        Where::Nowhere => return Err(no_memory(text, "optimized out there")),
    };
    let whole = match variable.size {
        0 => 8,
        size => size.min(1 << 20),
    };
    Ok(Goal {
        addr,
        len: args.len.unwrap_or(whole),
        variable: Some(Variable {
            name: text.to_owned(),
            size: variable.size,
            of: variable.of,
            space,
        }),
    })
}

fn no_memory(text: &str, what: &str) -> Failure {
    Failure::setup(format!(
        "{text} is {what}: there is no memory whose writes could be found"
    ))
}

/// The thread and frame to look from.
fn viewed(timeline: &mut Timeline, space: &Space, args: &LastWriteArgs) -> Result<View, Failure> {
    let status = timeline.status();
    let threads = timeline.guest().threads()?;
    let in_frame = args.at.is_some() || args.frame.is_some();
    let thread: Option<&Thread> = match (args.thread, &threads[..]) {
        (Some(index), all) => {
            let found = all.iter().find(|thread| thread.index == index);
            Some(found.ok_or_else(|| {
                Failure::setup(format!(
                    "there is no thread {index} at that place: relive info lists them, --at says another place"
                ))
            })?)
        }
        (None, [only]) => Some(only),
        (None, all) if in_frame => all.iter().find(|thread| thread.slot == status.slot),
        (None, _) => None,
    };
    let Some(slot) = thread.map(|thread| thread.slot) else {
        return Ok(View::default());
    };
    let Some(registers) = timeline.guest().registers(slot)? else {
        return Ok(View::default());
    };
    let mut guest = ReplayedGuest(timeline.guest());
    let frames = unwind(&mut guest, space, &names::registers(&registers));
    let wanted = args.frame.unwrap_or(0);
    let frame = frames.get(wanted).ok_or_else(|| {
        Failure::setup(format!(
            "there is no frame {wanted} at that place: the thread has {}",
            frames.len()
        ))
    })?;
    let whole = view(&mut guest, space, frame, registers.fs_base);
    if in_frame {
        return Ok(whole);
    }
    Ok(View {
        thread_pointer: whole.thread_pointer,
        ..View::default()
    })
}

impl Variable {
    /// The variable's value, if the memory is the whole variable.
    fn value(&self, host: &mut ReplayProcess, addr: u64, len: u64) -> Option<String> {
        let of = self.of.as_ref().filter(|_| len == self.size)?;
        let place = Where::Memory(addr);
        self.space
            .show(&mut ReplayedGuest(host), of, &place, &Passing::default())
    }
}

/// The name of the call that wrote.
fn by(call: Option<u32>) -> Option<String> {
    match call {
        None => None,
        Some(OTHERS) => Some("another process".to_owned()),
        Some(u32::MAX) => Some("the delivery of a signal".to_owned()),
        Some(nr) => Some(match relive_kabi::row(u64::from(nr)) {
            Some(row) => row.name.to_owned(),
            None => format!("system call {nr}"),
        }),
    }
}

fn text(w: &LastWrite, code: &Named, goal: &Goal, values: Option<&[String; 2]>) -> String {
    let by = by(w.call).map_or(String::new(), |name| format!(", by {name}"));
    let change = match (values, &goal.variable) {
        (Some([before, after]), Some(variable)) => {
            format!("{} = {before} -> {after}", variable.name)
        }
        _ => format!("{} -> {}", query::hex(&w.before), query::hex(&w.after)),
    };
    let (place, code) = (query::place_text(&w.place), names::text(code));
    format!("{place} in {code}{by}: {change}")
}

fn object(w: &LastWrite, code: &Named, goal: &Goal, values: Option<&[String; 2]>) -> Value {
    let variable = goal.variable.as_ref().map(|v| {
        json!({
            "name": v.name,
            "type": v.of.as_ref().map(Type::name),
            "address": goal.addr,
            "size": v.size,
            "before": values.map(|[before, _]| before),
            "after": values.map(|[_, after]| after),
        })
    });
    json!({
        "place": query::place_object(&w.place),
        "code": names::object(code),
        "by": by(w.call),
        "before": query::hex(&w.before),
        "after": query::hex(&w.after),
        "variable": variable,
    })
}
