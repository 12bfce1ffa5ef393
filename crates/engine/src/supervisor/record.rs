//! The recorder's own process: starts the host, and has its rings drained into the
//! trace until the program has ended.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use relive_sched::Flip;
use relive_trace::{Bytes, Manifest, Recorder, TraceWriter};

use super::children::{inherit_orphans, start};
use super::deadlock::Watch;
use super::drain::{Drain, Recording};
use super::epoch_finder::{EpochFinder, EpochPlan};
use super::flight::{Flight, FlightPlan};
use super::folder::Folder;
use super::forwarding::{forward_signals, ignore_keyboard, wake_at_child_end};
use super::kept_searches::KeptSearches;
use super::live_index::LiveImages;
use super::target::{absolute, environment, find_program};
use crate::failure::{Failure, Result};
use crate::image_stream::CHECKPOINTS;
use crate::mode::{HandedOn, Name};
use crate::modes::serial::flips::FLIPS;
use crate::modes::serial::sites::SITES;
use crate::shm::Shm;
use crate::start_data::Boot;
use crate::{learnt_sites, ordered_sites};

/// The program to record, and how.
pub struct RecordOptions<'a> {
    /// The program as given.
    pub program: &'a OsStr,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Where the trace goes: an empty or new folder.
    pub trace: &'a Path,
    /// How threads run.
    pub recorder: Recorder,
    /// Seed of the schedule, and whether it is chaotic; `None`: random and fair.
    pub seed: Option<(u64, bool)>,
    /// Kill the program after this time.
    pub timeout: Option<Duration>,
    /// Kill it when its threads wait for each other.
    pub deadlocks: bool,
    /// Its standard output and error go nowhere.
    pub silent: bool,
    /// Count, for `--stats`.
    pub count: bool,
    /// A sketch orders the plain accesses that earlier replays have learnt.
    pub promotes: bool,
    /// Instructions by which threads met in earlier recordings of the program.
    pub sites: &'a [u64],
    /// The last part is kept only; then `trace` is the folder in which the work is done.
    pub flight: Option<FlightPlan>,
    /// Session images are made on the way.
    pub images: Option<LiveImages>,
    /// The order of its threads is found meanwhile, by epochs between these images; of a flight that of what is kept.
    pub epochs: Option<EpochPlan>,
    /// Orders of an earlier recording that are turned around, in the process of this index.
    pub flips: (u32, &'a [Flip]),
}

/// Records a program to its end.
///
/// # Errors
/// The first failure; the trace is then incomplete, or not there.
pub fn record(options: &RecordOptions<'_>) -> Result<Recording> {
    crate::logging::init();
    keep_heap();
    let target = find_program(options.program, options.args)?;
    let trace = absolute(options.trace)?;
    crate::translations::store::choose();
    let manifest = manifest(options)?;
    let writer = TraceWriter::create(&trace, &manifest).map_err(Failure::setup)?;
    // The folder of work of a flight recording: nobody needs it when that has ended, in whatever way.
    let _work = options.flight.as_ref().map(|_| Folder::at(&trace));
    crate::sections::place();
    let (shm, _fd) = Shm::create()?;
    if options.count {
        crate::stats::COUNTERS.of(&shm).count();
    }
    let sites = SITES.of(&shm);
    options.sites.iter().for_each(|&site| sites.add(site));
    let (process, flips) = options.flips;
    FLIPS.of(&shm).give(process, flips);
    ordered_sites::give(&shm, &manifest);
    let drain = Drain::new(shm, writer);
    let drain = match &options.flight {
        Some(plan) => drain.with_flight(Flight::begin(shm, plan.clone(), manifest, &trace)?),
        None => drain,
    };
    let drain = match options.images {
        Some(images) => drain.with_images(images)?,
        None => drain,
    };
    let drain = match (options.epochs, &options.flight) {
        (None, _) => drain,
        (Some(plan), None) => {
            if plan.commits {
                CHECKPOINTS.of(&shm).begin_to_commit();
            }
            drain.with_finder(EpochFinder::begin(&plan, &trace)?)
        }
        (Some(plan), Some(_)) => drain.with_kept_searches(KeptSearches::new(plan)),
    };
    let shown = target.argv.clone();
    let memory = Some(shm.descriptor());
    let mode = match options.recorder {
        Recorder::Serial => Name::Serial,
        Recorder::Sketch => Name::Sketch,
        Recorder::Coherence => Name::Coherence,
    };
    let boot = Boot {
        path: target.path,
        argv: target.argv,
        env: environment(),
        handed_on: HandedOn {
            seed: options.seed,
            ..HandedOn::default()
        },
        ..Boot::new(mode, trace, memory, &target.called)
    };
    drop(target.file);
    inherit_orphans(true);
    // Before there is a program that could send one to its group; exec takes the handlers off again.
    forward_signals();
    let pid = start(&boot, &shown, options.silent, &[])?;
    ignore_keyboard();
    wake_at_child_end(&shm);
    drain.run(pid, options.timeout, options.deadlocks.then(Watch::new))
}

fn manifest(options: &RecordOptions<'_>) -> Result<Manifest> {
    let command = std::iter::once(options.program.to_owned())
        .chain(options.args.iter().cloned())
        .map(|a| Bytes(a.into_vec()))
        .collect();
    // A folder that was removed has no path any more; the kernel still tells what it was.
    let cwd = std::env::current_dir()
        .or_else(|_| std::fs::read_link("/proc/self/cwd"))
        .map_err(|e| Failure::setup(format!("cannot find the working folder: {e}")))?;
    let mut manifest = Manifest::new(
        command,
        Bytes(cwd.as_os_str().as_bytes().to_vec()),
        environment().into_iter().map(Bytes).collect(),
    );
    manifest.recorder = options.recorder;
    if options.recorder == Recorder::Sketch && options.promotes {
        manifest.sites = learnt_sites::all();
    }
    manifest.chaos_seed = options.seed.and_then(|(seed, chaos)| chaos.then_some(seed));
    Ok(manifest)
}

/// Buffers of events come and go, and some grow to a few hundred KiB: memory that was given back
/// to the kernel each time would be got back by a page fault for every 4 KiB.
fn keep_heap() {
    for (what, bytes) in [
        (libc::M_MMAP_THRESHOLD, 8 << 20),
        (libc::M_TRIM_THRESHOLD, 16 << 20),
        (libc::M_TOP_PAD, 1 << 20),
    ] {
        // SAFETY: sets a number of the allocator's; a refusal changes nothing.
        unsafe { libc::mallopt(what, bytes) };
    }
}
