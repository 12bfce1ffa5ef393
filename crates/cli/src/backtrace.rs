//! `relive backtrace`.

use std::io::Write;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_engine::timeline::{Spot, Thread, Timeline, follow};
use relive_symbols::{Frame, How, Space, unwind};
use serde_json::{Value, json};

use crate::args::BacktraceArgs;
use crate::names::{self, ReplayedGuest};
use crate::output::{self, Stop};
use crate::traces;

/// Shows call stacks at one place of a recording.
///
/// # Errors
/// Any failure of the replay.
pub fn execute(args: &BacktraceArgs) -> Result<EndStatus, Failure> {
    let trace = traces::open_to_replay(args.trace.trace.as_deref())?;
    let way = follow(&trace, traces::process(&trace, args.process, args.at)?)?;
    let mut timeline = Timeline::open(trace.directory(), &way)?;
    traces::go(&mut timeline, args.at)?;
    let space = names::space(&mut timeline);
    let slot = timeline.status().slot;
    let mut threads = timeline.guest().threads()?;
    threads.retain(|thread| args.all || thread.slot == slot);
    // The running thread comes first.
    threads.sort_by_key(|thread| (thread.slot != slot, thread.index));
    let mut stacks = Vec::new();
    for thread in threads {
        let frames = stack(&mut timeline, &space, &thread)?;
        stacks.push((thread, frames));
    }
    output::print(|out| {
        if args.json {
            let all: Vec<Value> = stacks
                .iter()
                .map(|(thread, frames)| object(&space, thread, frames))
                .collect();
            let status = timeline.status();
            let whole = json!({
                "process": status.process,
                "event": status.point.event,
                "tick": status.point.ticks,
                "at": Spot::of(&status).to_string(),
                "threads": all,
            });
            return writeln!(out, "{whole}").map_err(Stop::from);
        }
        for (n, (thread, frames)) in stacks.iter().enumerate() {
            if n > 0 {
                writeln!(out)?;
            }
            let status = timeline.status();
            writeln!(
                out,
                "p{}.t{} (thread {} {}), event {}, tick {}:",
                status.process,
                thread.index,
                thread.tid,
                thread.name,
                status.point.event,
                status.point.ticks
            )?;
            show(out, &space, frames)?;
        }
        Ok(())
    })
}

fn stack(timeline: &mut Timeline, space: &Space, thread: &Thread) -> Result<Vec<Frame>, Failure> {
    let host = timeline.guest();
    let Some(registers) = host.registers(thread.slot)? else {
        return Ok(Vec::new());
    };
    let registers = names::registers(&registers);
    Ok(unwind(&mut ReplayedGuest(host), space, &registers))
}

/// How a frame was found, if that makes it doubtful.
fn doubt(how: How) -> &'static str {
    match how {
        How::Present | How::Tables => "",
        How::FramePointer => " (by frame pointer)",
        How::TopOfStack => " (by the top of the stack)",
    }
}

fn show(out: &mut dyn Write, space: &Space, frames: &[Frame]) -> Result<(), Stop> {
    for (n, frame) in frames.iter().enumerate() {
        let named = space.name(frame.lookup);
        let pc = frame.registers.pc;
        // The inlined functions first; the last line is that of the function itself.
        let inlined = named.lines.len().saturating_sub(1);
        for line in &named.lines[..inlined] {
            let function = line.function.as_deref().unwrap_or("??");
            let at = names::line_text(line).map_or(String::new(), |text| format!(" at {text}"));
            writeln!(out, "#{n:<3} {pc:#018x} {function} (inlined){at}")?;
        }
        let mut own = named;
        own.lines.drain(..inlined);
        // A function is shown by its name; the line tells the place in it.
        if let (Some((_, offset)), Some(line)) = (&mut own.symbol, own.lines.first())
            && line.line.is_some()
        {
            *offset = 0;
        }
        let text = names::text(&own);
        writeln!(out, "#{n:<3} {pc:#018x} {text}{}", doubt(frame.how))?;
    }
    Ok(())
}

fn object(space: &Space, thread: &Thread, frames: &[Frame]) -> Value {
    let frames: Vec<Value> = frames
        .iter()
        .map(|frame| {
            let mut value = names::object(&space.name(frame.lookup));
            value["pc"] = frame.registers.pc.into();
            value["found_by"] = match frame.how {
                How::Present => "registers",
                How::Tables => "tables",
                How::FramePointer => "frame pointer",
                How::TopOfStack => "top of stack",
            }
            .into();
            value
        })
        .collect();
    json!({
        "thread": thread.index,
        "tid": thread.tid,
        "name": thread.name,
        "frames": frames,
    })
}
