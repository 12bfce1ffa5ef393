//! The orders of a recording that may be turned around, with the names of their places.

use std::collections::BTreeMap;
use std::time::Instant;

use relive_engine::Failure;
use relive_engine::timeline::{AccessOrder, Races, Timeline, follow, orders, processes};
use relive_gdb::At;
use relive_sched::{Flip, SharedAccess};
use relive_symbols::{Named, Space};
use relive_trace::Trace;

use super::plan::Concern;
use crate::{format, names, progress, traces};

/// The orders of one process.
pub struct FoundOrders {
    /// Its index.
    pub process: u32,
    /// Its orders.
    pub all: Vec<(AccessOrder, Concern)>,
    names: BTreeMap<u64, String>,
}

impl FoundOrders {
    /// The orders of a recording's process, or of the one that has the most; as far as they are found by then.
    ///
    /// # Errors
    /// Divergence, a damaged trace.
    pub fn of(
        trace: &Trace,
        process: Option<u32>,
        until: Option<Instant>,
    ) -> Result<Self, Failure> {
        let all = process.map_or_else(|| processes(trace), |process| vec![process]);
        let mut most: (u32, Vec<AccessOrder>) = (process.unwrap_or(0), Vec::new());
        for process in all {
            let found = in_process(trace, process, until)?;
            if found.len() > most.1.len() {
                most = (process, found);
            }
        }
        let (process, found) = most;
        let mut orders = Self {
            process,
            all: Vec::new(),
            names: BTreeMap::new(),
        };
        if !found.is_empty() {
            orders.judge(trace, &found)?;
        }
        Ok(orders)
    }

    /// Finds out the program's part in each order.
    fn judge(&mut self, trace: &Trace, found: &[AccessOrder]) -> Result<(), Failure> {
        let mut timeline = Timeline::open(trace.directory(), &follow(trace, self.process)?)?;
        traces::go(&mut timeline, At::End)?;
        let space = names::space(&mut timeline);
        for order in found {
            let sites = [order.first.site, order.second.site];
            for site in sites {
                let named = || place_name(&space.name(site), site);
                self.names.entry(site).or_insert_with(named);
            }
            if order.word >= SharedAccess::BESIDE_MEMORY {
                self.all.push((*order, Concern::Shared));
                continue;
            }
            let [first, second] = sites.map(|site| !is_library(&space, site));
            let binds = sites.iter().any(|&site| is_linker(&space, site));
            let data = space.name(order.word * 8).module;
            let data = data.filter(|module| !module.starts_with('['));
            let concern = match (first && second, first || second, data) {
                // Functions are bound while others call them.
                _ if binds => Concern::Library,
                (true, _, _) => Concern::Own,
                (false, true, _) => Concern::Shared,
                (false, false, Some(module)) if is_library_file(&module) => Concern::Library,
                (false, false, Some(_)) => Concern::Shared,
                (false, false, None) => Concern::Foreign,
            };
            self.all.push((*order, concern));
        }
        Ok(())
    }

    /// The instructions of all of them.
    pub fn sites(&self) -> impl Iterator<Item = u64> {
        let all = self.all.iter();
        all.flat_map(|(order, _)| [order.first.site, order.second.site])
    }

    /// Flips for people.
    pub fn show_all(&self, flips: &[Flip]) -> String {
        let each: Vec<String> = flips.iter().map(|flip| self.show(flip)).collect();
        each.join("; ")
    }

    /// A flip for people.
    fn show(&self, flip: &Flip) -> String {
        let name = |site: u64| {
            let name = self.names.get(&site).cloned();
            name.unwrap_or_else(|| format!("{site:#x}"))
        };
        let Flip {
            thread,
            site,
            arrival,
            until,
            ..
        } = *flip;
        let times = match arrival {
            1 => String::new(),
            n => format!(", time {n}"),
        };
        let until = match until {
            0 => "until no other thread can go on".to_owned(),
            until => format!("until another one is behind {}", name(until)),
        };
        format!("t{thread} waits at {}{times}, {until}", name(site))
    }
}

fn in_process(
    trace: &Trace,
    process: u32,
    until: Option<Instant>,
) -> Result<Vec<AccessOrder>, Failure> {
    let tapes = trace.tapes().iter();
    let threads = tapes.filter(|tape| tape.id.process == process && !tape.id.is_schedule());
    if threads.count() < 2 {
        return Ok(Vec::new());
    }
    let bar = progress::counter("events");
    let mut tell = |so_far: &Races| {
        bar.set_position(so_far.events);
        bar.set_message(format::count(so_far.orders.len() as u64, "order"));
        until.is_none_or(|until| Instant::now() < until)
    };
    let found = orders(trace.directory(), &follow(trace, process)?, &mut tell);
    bar.finish_and_clear();
    found
}

/// An instruction for people.
pub fn place_name(named: &Named, site: u64) -> String {
    let function = named.symbol.as_ref().map(|(name, _)| name.as_str());
    let line = named.lines.last();
    let line = line.and_then(|line| Some((line.file.as_deref()?, line.line?)));
    match (function, line) {
        (Some(function), Some((path, line))) => {
            let file = path.rsplit('/').next().unwrap_or(path);
            format!("{function} ({file}:{line})")
        }
        (Some(function), None) => format!("{function} ({site:#x})"),
        (None, _) => format!("{site:#x}"),
    }
}

fn is_library(space: &Space, site: u64) -> bool {
    let module = space.name(site).module;
    module.is_none_or(|module| is_library_file(&module))
}

fn is_linker(space: &Space, site: u64) -> bool {
    let module = space.name(site).module.unwrap_or_default();
    let file = module.rsplit('/').next().unwrap_or("");
    file.starts_with("ld-") && is_library_file(&module)
}

/// Whether a file is one of the system's libraries.
fn is_library_file(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let system = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"];
    file.contains(".so") && system.iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_systems() {
        assert!(is_library_file("/usr/lib/x86_64-linux-gnu/libc.so.6"));
        assert!(is_library_file("/lib64/ld-linux-x86-64.so.2"));
        for own in [
            "/home/a/pool",
            "/usr/lib/git-core/git",
            "/home/a/lib/libmine.so",
        ] {
            assert!(!is_library_file(own), "{own}");
        }
    }
}
