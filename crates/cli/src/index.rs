//! `relive index`: session images in a recording, for debuggers that begin far from its beginning.

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_engine::timeline::{Indexed, Places, check_index, crashes, index};
use relive_trace::{ImageSet, Trace, UNFINISHED_INDEX};

use crate::args::IndexArgs;
use crate::format::{count, duration, size};
use crate::progress::Bar;
use crate::{output, traces};

/// Images of a process that lie evenly, by default.
const EVEN: u64 = 64;
/// Bytes of an index, by default.
const MOST: u64 = 1 << 30;

/// Makes the index of a recording, or removes it.
///
/// # Errors
/// Divergence, no such process, or the trace cannot be written.
pub fn execute(args: &IndexArgs) -> Result<EndStatus, Failure> {
    let trace = traces::open(args.trace.trace.as_deref())?;
    let shown = trace.directory().display();
    if args.remove {
        let was = ImageSet::Index
            .remove(trace.directory())
            .map_err(Failure::setup)?;
        // What a command has left that was ended amid its work.
        let was = std::fs::remove_dir_all(trace.directory().join(UNFINISHED_INDEX)).is_ok() || was;
        let done = if was { "removed" } else { "there is none" };
        return output::print(|out| Ok(writeln!(out, "the index of {shown}: {done}")?));
    }
    if args.compare {
        let bar = Bar::parts("comparing");
        let compared = check_index(&trace, &mut |done, all| bar.of(done, all))?;
        drop(bar);
        let found = count(compared, "image");
        return output::print(|out| {
            Ok(writeln!(
                out,
                "the index of {shown}: {found} as the replay from the beginning"
            )?)
        });
    }
    let trace = traces::open_to_replay(Some(trace.directory()))?;
    let processes = match args.process.is_empty() {
        true => usual(&trace)?,
        false => args.process.clone(),
    };
    let places = Places {
        even: args.images.unwrap_or(EVEN),
        close: args.images.is_some(),
        most: args.max_size.unwrap_or(MOST),
        check: args.check,
    };
    let bar = Bar::parts("indexing");
    let made = index(&trace, &processes, places, &mut |done, all| {
        bar.of(done, all)
    })?;
    drop(bar);
    output::print(|out| Ok(writeln!(out, "indexed {shown}: {}", text(&made))?))
}

fn text(made: &Indexed) -> String {
    let images = match made.images {
        0 if !made.shared.is_empty() => "no images".to_owned(),
        0 => "it is replayed so quickly that images would not help".to_owned(),
        n => format!("{}, {}", count(n, "image"), size(made.bytes)),
    };
    let mut more = String::new();
    if made.full {
        more += ", and no room for more: see --max-size";
    }
    if made.checked > 0 {
        more += &format!("; {} compared at the end", count(made.checked, "replay"));
    }
    for process in &made.shared {
        more += &format!("; p{process} shares memory with others: there are none of it yet");
    }
    format!(
        "{images}{more}; replayed in {}, written in {}",
        duration(made.replayed),
        duration(made.wrote)
    )
}

/// The processes that a debugger opens by itself: the first one, and the one that crashed.
fn usual(trace: &Trace) -> Result<Vec<u32>, Failure> {
    let crashed = crashes(trace)?.first().map(|(process, _)| *process);
    let other = crashed.filter(|process| *process != 0);
    Ok([0].into_iter().chain(other).collect())
}
