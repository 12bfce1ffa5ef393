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
            let word = space.name(order.word * 8);
            let of_library = is_toolchain_variable(&word);
            let data = word.module.filter(|module| !module.starts_with('['));
            let concern = match (first && second, first || second, data) {
                // Functions are bound while others call them.
                _ if binds => Concern::Library,
                (true, _, _) => Concern::Own,
                (false, true, _) => Concern::Shared,
                (false, false, Some(module)) if of_library || is_library_file(&module) => {
                    Concern::Library
                }
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
    let way = follow(trace, process)?;
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
    let found = orders(trace.directory(), &way, &mut tell);
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

/// Whether an instruction is a library's: in a file of its own, or linked into the program, and from no line of the program's.
/// Rust's core and alloc are the program's where it calls them.
fn is_library(space: &Space, site: u64) -> bool {
    let named = space.name(site);
    match &named.module {
        Some(module) if !is_library_file(module) => is_linked_library(&named),
        _ => true,
    }
}

fn is_linked_library(named: &Named) -> bool {
    let lines = named.lines.iter();
    let files: Vec<&str> = lines.filter_map(|line| line.file.as_deref()).collect();
    let runs = |file: &&str| file.ends_with(".go") || file.contains("/library/std/");
    // One of alloc's collections, of what the run time has in it.
    let holds = |(name, _): &(String, u64)| name.contains("std::sys::");
    !files.is_empty()
        && files.iter().all(|file| is_toolchain_source(file))
        && (files.iter().any(runs) || named.symbol.as_ref().is_some_and(holds))
}

/// Whether a source file is one of the standard libraries of Rust or Go, which are linked into each program.
fn is_toolchain_source(path: &str) -> bool {
    const GO: [&str; 6] = ["runtime", "internal", "sync", "syscall", "os", "time"];
    let go = |path: &str| {
        let folder = path.split('/').next().unwrap_or("");
        path.ends_with(".go") && path.contains('/') && GO.contains(&folder)
    };
    let rust = path.starts_with("/rustc/") || path.contains("/rustlib/src/rust/library/");
    rust || go(path)
        || path
            .split_once("/src/")
            .is_some_and(|(root, rest)| root.contains("/go") && go(rest))
}

/// Whether a variable is one of these libraries'.
fn is_toolchain_variable(named: &Named) -> bool {
    let name = named.symbol.as_ref().map_or("", |(name, _)| name.as_str());
    let crates = ["std::", "core::", "alloc::", "runtime."];
    crates.iter().any(|of| name.starts_with(of))
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

    #[test]
    fn standard_libraries_are_linked_into_programs() {
        for library in [
            "/rustc/2c8f0b1f/library/std/src/sys/thread_local/mod.rs",
            "/home/a/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/sync/atomic.rs",
            "/usr/lib/go-1.19/src/runtime/proc.go",
            "/usr/local/go/src/sync/mutex.go",
            "runtime/proc.go",
        ] {
            assert!(is_toolchain_source(library), "{library}");
        }
        for own in [
            "src/main.rs",
            "/home/a/.cargo/registry/src/index/crossbeam/src/lib.rs",
            "/home/a/gopher/src/runtime.go",
            "/home/a/go/src/pool/pool.go",
            "runtime.go",
            "/usr/include/c++/12/bits/stl_deque.h",
        ] {
            assert!(!is_toolchain_source(own), "{own}");
        }
    }
}
