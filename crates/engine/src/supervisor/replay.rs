//! Watching a replay: one host process for the first recorded process, which forks the rest.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use relive_dbt::FRAGMENT_INSNS;
use relive_host::sys;
use relive_trace::{Excerpt, ExitStatus, Recorder, Trace, TraceWriter};

use super::children::{has_children, inherit_orphans, kill, reap, reap_all, start};
use super::drain::Drain;
use super::forwarding::wake_at_child_end;
use super::status::EndStatus;
use super::target::absolute;
use crate::broker::{Broker, Gathered, Members};
use crate::failure::{EXIT_STATUS, Failure, Result};
use crate::guide::trials::Disagreement;
use crate::mode::Name;
use crate::modes::replay::checksum::{self, ChecksumInterval};
use crate::modes::replay::concurrency::CONCURRENCY;
use crate::modes::replay::epoch::{self, Epoch};
use crate::modes::replay::linear::disagreement::TOLD;
use crate::modes::replay::linear::hints::Hints;
use crate::modes::replay::linear::wanted::{self, TurnLength};
use crate::modes::replay::races::learning::{self, LearningStart};
use crate::modes::replay::{confine, other_writers};
use crate::ordered_sites::{self, SITES};
use crate::shm::Shm;
use crate::start_data::Boot;
use crate::stats::Totals;
use crate::{sections, sharing, stats};

/// The trace to replay, and how.
pub struct ReplayOptions<'a> {
    /// The trace.
    pub trace: &'a Path,
    /// Nothing is written to standard output and error.
    pub quiet: bool,
    /// Take checksums of memory, so many events of a process apart.
    pub checksums: Option<ChecksumInterval>,
    /// Most instructions in a fragment, if not the default.
    pub fragment_insns: Option<u32>,
    /// Count, for `--stats`.
    pub count: bool,
    /// Replay a sketch with its threads at the same time.
    pub parallel: bool,
    /// Learn on the way which plain accesses a sketch should order: a hundred times as slow.
    pub learns: bool,
    /// Write the changes of others to the memory that these processes share into a folder.
    pub other_writers: Option<(&'a [u32], &'a Path)>,
}

impl<'a> ReplayOptions<'a> {
    /// A plain replay.
    #[must_use]
    pub fn of(trace: &'a Path) -> Self {
        Self {
            trace,
            quiet: false,
            checksums: None,
            fragment_insns: None,
            count: false,
            parallel: false,
            learns: false,
            other_writers: None,
        }
    }
}

/// A finished replay.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// How the first process ended.
    pub status: EndStatus,
    /// Events replayed, in all processes.
    pub events: u64,
    /// The counters, if they were asked for.
    pub totals: Option<Totals>,
    /// Checksums of memory, if they were asked for.
    pub gathered: Gathered,
    /// The sites that it has learnt, if it was to.
    pub sites: BTreeSet<u64>,
}

/// Replays a trace to its end.
///
/// # Errors
/// Divergence, a damaged trace, or any other failure.
pub fn replay(options: &ReplayOptions<'_>) -> Result<Replayed> {
    replay_into(options, None).map_err(|failed| failed.failure)
}

/// Where a replay that linearises writes the exact tapes, and the decisions of a search.
pub struct Exact<'a> {
    /// The writer of the tapes.
    pub writer: TraceWriter,
    /// The decisions.
    pub hints: &'a Hints,
    /// How long turns are.
    pub turns: TurnLength,
    /// Where it begins to learn which plain accesses a later recording should order, if it does.
    pub learns: Option<LearningStart>,
    /// The epoch that is replayed, and the number of the first output behind its begin.
    pub epoch: (Epoch, u64),
}

/// A failed replay.
pub struct Failed {
    /// Why.
    pub failure: Failure,
    /// Where a linearising replay left the recording, if it did.
    pub at: Option<Disagreement>,
    /// The sites that it has learnt.
    pub sites: BTreeSet<u64>,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            at: None,
            sites: BTreeSet::new(),
        }
    }
}

/// The same; with `exact` it finds the turns of threads that were recorded at the same time, and writes the
/// exact tapes there.
///
/// # Errors
/// As [`replay`]; the exact tapes cannot be written.
pub fn replay_into(
    options: &ReplayOptions<'_>,
    exact: Option<Exact<'_>>,
) -> std::result::Result<Replayed, Failed> {
    crate::descriptor_limit::for_command()?;
    let path = absolute(options.trace)?;
    let trace = match (options.parallel, &exact) {
        (true, _) => side_by_side(&path)?,
        (false, Some(_)) => Trace::open_recorded(&path).map_err(Failure::setup)?,
        (false, None) => Trace::open(&path).map_err(Failure::setup)?,
    };
    let manifest = trace.manifest().clone();
    sections::place();
    let (shm, _fd) = Shm::create()?;
    if options.count {
        stats::COUNTERS.of(&shm).count();
    }
    CONCURRENCY.of(&shm).begin();
    if let Some(excerpt) = &manifest.excerpt {
        let next = &shm.header().next_order;
        next.store(excerpt.output_from(excerpt.order), Ordering::Release);
    }
    ordered_sites::tell_turns(&shm, &path)?;
    if exact.is_some() || options.parallel {
        ordered_sites::give(&shm, &manifest);
    }
    crate::translations::store::choose();
    let shown = vec![b"relive-replay".to_vec()];
    let memory = Some(shm.descriptor());
    let name = match options.parallel {
        true => Name::Parallel,
        false => Name::Replay,
    };
    let boot = Boot::new(name, path.clone(), memory, &shown[0]);
    inherit_orphans(true);
    let mut extra = Vec::new();
    if options.quiet {
        extra.push(("RELIVE_QUIET", "1".to_owned()));
    }
    if let Some(interval) = options.checksums {
        extra.push((checksum::VARIABLE, interval.to_text()));
    }
    if let Some((processes, folder)) = options.other_writers {
        extra.push((
            other_writers::RECORD,
            other_writers::order(folder, processes),
        ));
    }
    if options.learns {
        extra.push((learning::VARIABLE, LearningStart::default().to_text()));
    }
    if let Some(exact) = &exact {
        extra.push((wanted::VARIABLE, wanted::with(exact.turns, exact.hints)));
        let (epoch, order) = exact.epoch;
        if epoch != Epoch::default() {
            shm.header().next_order.store(order, Ordering::Release);
            extra.push((epoch::VARIABLE, epoch.to_text()));
        }
        if let Some(start) = exact.learns {
            extra.push((learning::VARIABLE, start.to_text()));
        }
    }
    if let Some(n) = options.fragment_insns {
        extra.push((FRAGMENT_INSNS, n.to_string()));
    }
    wake_at_child_end(&shm);
    // Of the program that this process was before.
    let had_children = has_children();
    let mut broker = Broker::new()?;
    extra.push(broker.variable());
    let root = start(&boot, &shown, false, &extra)?;
    let recorded = manifest.summary.as_ref().map(|s| s.exit);
    let watched = Watched {
        shm: &shm,
        members: broker.members().clone(),
        root,
    };
    if let Err(e) = broker.serve(&path) {
        watched.kill_all();
        return Err(e.into());
    }
    let mut exact = exact.map(|exact| Drain::new(shm, exact.writer));
    let status = watched
        .watch(had_children, recorded, exact.as_mut())
        .map_err(|failure| Failed {
            failure,
            at: TOLD.of(&shm).read(),
            sites: SITES.of(&shm).learnt(),
        })?;
    let gathered = broker.finish()?;
    if let Some(exact) = exact {
        exact.finish(manifest.summary.as_ref().filter(|_| !trace.is_cut()))?;
    }
    let events = shm.header().events.load(Ordering::Relaxed);
    // The tape of a process that was killed from outside does not say so; the manifest does.
    let first = |excerpt: &Excerpt| excerpt.process(0).is_some();
    let status = match manifest.summary.map(|s| s.exit) {
        // The program's first process had ended before the excerpt begins.
        Some(exit) if !manifest.excerpt.as_ref().is_none_or(first) => EndStatus::from(exit),
        Some(ExitStatus::Signal(s)) if status == EndStatus::Code(0) => EndStatus::Signal(s),
        Some(ExitStatus::Code(c)) if status == EndStatus::Code(0) => EndStatus::Code(c),
        _ => status,
    };
    Ok(Replayed {
        status,
        events,
        totals: stats::COUNTERS.of(&shm).totals(),
        gathered,
        sites: SITES.of(&shm).learnt(),
    })
}

/// Opens a recording whose threads are to be replayed side by side, if they can be.
///
/// # Errors
/// They cannot: why, and what to do instead.
fn side_by_side(path: &Path) -> Result<Trace> {
    let trace = Trace::open_recorded(path).map_err(Failure::setup)?;
    let why = if trace.manifest().recorder.is_serial() {
        "its threads were recorded one at a time (a recording by `relive record --mode sketch` can be)"
    } else if trace.manifest().recorder == Recorder::Coherence {
        "all accesses to its memory are in order, of which a parallel replay knows nothing"
    } else if trace.manifest().excerpt.is_some() {
        "it is the last part of a run, and does not begin with the program"
    } else if trace.tapes().iter().any(|tape| tape.id.process != 0) {
        "it has several processes"
    } else if trace.tapes().iter().any(|tape| tape.id.is_schedule()) {
        "its threads went over to turns (the process shared memory with others, or a thread waited for a priority-inheriting mutex)"
    } else if trace.is_cut() {
        "it was cut off before its end"
    } else {
        return Ok(trace);
    };
    Err(Failure::unsupported(format!(
        "this recording cannot be replayed with --parallel: {why}; replay it without"
    )))
}

/// A running replay. The content of the shared memory is not to be trusted: the processes that
/// write it may have been taken over.
struct Watched<'a> {
    shm: &'a Shm,
    members: Members,
    root: i32,
}

impl Watched<'_> {
    /// Waits for all processes of the replay, and for no other children if there were some;
    /// `recorded` is how the program ended.
    fn watch(
        &self,
        had_children: bool,
        recorded: Option<ExitStatus>,
        mut exact: Option<&mut Drain>,
    ) -> Result<EndStatus> {
        let (shm, root) = (self.shm, self.root);
        // Only the first process dies of the signal that it was recorded to die of.
        let may_die_of_sigsys = recorded == Some(ExitStatus::Signal(libc::SIGSYS));
        let mut status = None;
        loop {
            let seen = shm.header().wake.load(Ordering::Acquire);
            if let Some(exact) = &mut exact {
                self.drain(exact)?;
            }
            let mut children = 0;
            while let Some((pid, s)) = reap() {
                children += 1;
                let ended = EndStatus::from_wait(s);
                let sigsys =
                    ended == EndStatus::Signal(libc::SIGSYS) && !(pid == root && may_die_of_sigsys);
                // A process that ends in order unregisters first.
                let unannounced = shm.registered().any(|p| p as i32 == pid);
                // Its number may be another's from now on.
                shm.unregister(pid as u32);
                if sigsys || unannounced {
                    let signal = match ended {
                        EndStatus::Signal(signal) => signal,
                        EndStatus::Code(_) => 0,
                    };
                    return Err(self.end_all(signal));
                }
                if pid == root {
                    status = Some(ended);
                }
            }
            if let Some(failure) = shm.failure() {
                self.kill_all();
                return Err(failure);
            }
            if let Some(s) = status
                && CONCURRENCY.of(shm).running.load(Ordering::Acquire) == 0
            {
                // All have announced their ends; the resources that they used count once they have
                // ended.
                if !had_children {
                    reap_all();
                }
                if let Some(exact) = &mut exact {
                    // The tape of a process is at its end once the process is gone, and it is not while it is
                    // unreaped. Children of a failed attempt before this one keep `reap_all` from doing that.
                    while self.drain(exact)? {
                        while reap().is_some() {}
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                return Ok(s);
            }
            if status.is_some() && children == 0 && !has_children() {
                // A process of the replay ended without saying so.
                return match status {
                    Some(EndStatus::Code(EXIT_STATUS)) => {
                        // It could not even reach the shared memory, and has said so itself.
                        Err(Failure::setup("the replay could not be started"))
                    }
                    Some(EndStatus::Signal(signal)) => Err(confine::killed(signal)),
                    Some(EndStatus::Code(_)) => Err(confine::killed(0)),
                    None => continue,
                };
            }
            sys::futex_wait(&shm.header().wake, seen, Some(20));
            // A process that waits for a lost one wakes nothing: a look is enough once all is
            // quiet.
            if shm.header().wake.load(Ordering::Acquire) == seen
                && let Some(signal) = lost(shm)
            {
                return Err(self.end_all(signal));
            }
        }
    }

    /// Writes what there is of the exact tapes. Whether there may be more; where it cannot be written the replay ends.
    fn drain(&self, exact: &mut Drain) -> Result<bool> {
        exact.drain().inspect_err(|failure| {
            self.shm.fail(failure.class(), failure.text());
            self.kill_all();
        })
    }

    /// Ends the replay because a process of it has ended unannounced, by a signal if not 0; says why.
    fn end_all(&self, signal: i32) -> Failure {
        // A process that stops for a reason of its own has noted that failure before; else this one
        // ends the processes that are just being forked and have not registered yet.
        let killed = confine::killed(signal);
        self.shm.fail(killed.class(), killed.text());
        self.kill_all();
        self.shm.failure().unwrap_or(killed)
    }

    fn kill_all(&self) {
        for pid in self.shm.registered() {
            self.members.kill(pid);
        }
        kill(self.root);
    }
}

/// The signal that ended a forked process of the replay which had not said that it ends; 0 if it
/// was none. Its parent need not notice: it may wait for a turn of that process.
fn lost(shm: &Shm) -> Option<i32> {
    shm.registered().find_map(|pid| {
        let signal = sharing::unwaited(pid)?;
        // It may have taken itself off the list between the two looks.
        shm.registered().any(|p| p == pid).then_some(signal)
    })
}
