//! The timeline itself: where it is, and going forward.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::host::{Host, Wanted};
use super::processes::Follow;
use super::snapshots::{Snapshot, Snapshots};
use super::way::{Noted, Way, Which};
use crate::failure::{Failure, Result};
use crate::guide::point::Point;
use crate::guide::protocol::{Ended, Hit, Ran, Run, Search, Status, Stops, Why};
use crate::supervisor::{self, Folder};

/// Work between two snapshots before the speed of the replay is known.
const FIRST_GAP: u64 = 2_000_000;
/// Memory for snapshots: this part of what is available at the start.
const MEMORY_PART: u64 = 4;
/// Most snapshots that somebody may keep: each is a process.
const MOST_KEPT: usize = 100;

/// Why the timeline stands where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It was asked to go exactly there.
    There,
    /// The steps are done.
    Stepped,
    /// A breakpoint, an access to watched memory, a signal.
    Hit(Hit),
    /// The process begins here: nothing is before.
    Start,
    /// The process has ended.
    Ended(Ended),
    /// It was interrupted.
    Interrupted,
}

/// The timeline of one process.
pub struct Timeline {
    pub(super) snapshots: Snapshots,
    pub(super) current: Host,
    pub(super) status: Status,
    pub(super) start: Point,
    /// Where to stop.
    pub stops: Stops,
    /// A copy that has been written to: what one looks at, until the replay goes on.
    changed: Option<Host>,
    trace: PathBuf,
    /// What others change in shared memory, for replays of this process.
    _other_writers: Option<Folder>,
    /// Work done so far in portions, and the microseconds that it took.
    pub(super) speed: (u64, u128),
    /// Snapshots that somebody wants to come back to, by number.
    kept: BTreeMap<u32, Snapshot>,
    /// What is asked about the way that the timeline is about to go.
    pub(super) noted: Option<Noted>,
}

impl Timeline {
    /// Opens a trace at the beginning of a process.
    ///
    /// # Errors
    /// The trace is damaged, or has no such process.
    pub fn open(trace: &Path, follow: &Follow) -> Result<Self> {
        let trace = std::path::absolute(trace).map_err(Failure::setup)?;
        let other_writers = supervisor::other_writers(&trace, &follow.chain)?;
        let changes = other_writers.as_ref().map(Folder::path);
        let (mut host, status) = Host::start(&trace, &follow.chain, changes)?;
        let current = host.fork()?;
        let bound = available_memory() / MEMORY_PART;
        let snapshots = Snapshots::new(Snapshot { status, host }, FIRST_GAP, bound);
        Ok(Self {
            snapshots,
            current,
            status,
            start: status.point,
            stops: Stops::default(),
            changed: None,
            trace,
            _other_writers: other_writers,
            speed: (0, 0),
            kept: BTreeMap::new(),
            noted: None,
        })
    }

    /// The trace's folder.
    #[must_use]
    pub fn trace(&self) -> &Path {
        &self.trace
    }

    /// Where it is.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Where it began.
    #[must_use]
    pub fn start(&self) -> Point {
        self.start
    }

    /// The guest as one sees it now: of the replay, or of the copy that was written to.
    pub fn guest(&mut self) -> &mut Host {
        self.changed.as_mut().unwrap_or(&mut self.current)
    }

    /// Whether the guest has been written to since the replay last went on.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed.is_some()
    }

    /// The guest of the recording, whatever has been written to its copy.
    pub fn original(&mut self) -> &mut Host {
        &mut self.current
    }

    /// A guest that may be written to. It is thrown away when the replay goes on.
    ///
    /// # Errors
    /// No copy can be made.
    pub fn changeable(&mut self) -> Result<&mut Host> {
        if self.changed.is_none() {
            self.changed = Some(self.current.fork()?);
        }
        Ok(self.guest())
    }

    /// Throws the copy away that was written to. Whether there was one.
    pub fn forget_changes(&mut self) -> bool {
        self.changed.take().is_some()
    }

    /// Positions of all snapshots, and the memory that they use.
    #[must_use]
    pub fn snapshots(&self) -> (Vec<Status>, u64) {
        let all = self.snapshots.iter().map(|s| s.status).collect();
        (all, self.snapshots.memory())
    }

    /// A replay of its own, from the present position, which others cannot disturb.
    ///
    /// # Errors
    /// No copy can be made.
    pub fn snapshot(&mut self) -> Result<Host> {
        self.current.fork()
    }

    /// From here on the guest's output is written to standard output and error, once: by the
    /// replay that goes on from here.
    ///
    /// # Errors
    /// The process is gone.
    pub fn show_output(&mut self) -> Result<()> {
        self.current.show_output()
    }

    /// Goes forward to a position, or to the end, without stops and snapshots.
    ///
    /// # Errors
    /// Divergence.
    pub fn forward_to(&mut self, to: Option<Point>, wanted: &mut dyn Wanted) -> Result<Stopped> {
        self.forget_changes();
        let to = to.unwrap_or(Point::behind_event(u64::MAX));
        if self.status.point == to || to.is_before(&self.status.point) {
            return Ok(Stopped::There);
        }
        let ran = self.current.run(&run_to(to), &Stops::default(), wanted)?;
        self.status = ran.status;
        Ok(stopped(&ran))
    }

    /// Goes forward to the next stop, or to the end.
    ///
    /// # Errors
    /// Divergence.
    pub fn forward(&mut self, wanted: &mut dyn Wanted) -> Result<Stopped> {
        self.go_on(None, None, wanted)
    }

    /// As [`Timeline::forward`], without anything that makes going back cheap: for many stops.
    pub(super) fn forward_only(&mut self, wanted: &mut dyn Wanted) -> Result<Stopped> {
        self.forget_changes();
        let run = Run {
            search: Search::Stop,
            leave: true,
            ..Run::to_the_end()
        };
        let ran = self.current.run(&run, &self.stops, wanted)?;
        self.status = ran.status;
        Ok(stopped(&ran))
    }

    /// Lets a thread execute `count` instructions, while others may run too.
    ///
    /// # Errors
    /// Divergence.
    pub fn step(&mut self, slot: u32, count: u64, wanted: &mut dyn Wanted) -> Result<Stopped> {
        self.go_on(None, Some((slot, count)), wanted)
    }

    fn go_on(
        &mut self,
        until: Option<Point>,
        step: Option<(u32, u64)>,
        wanted: &mut dyn Wanted,
    ) -> Result<Stopped> {
        self.forget_changes();
        let run = Run {
            until,
            step,
            search: Search::Stop,
            leave: true,
            work: None,
            output: true,
            fast: false,
        };
        let stops = self.stops.clone();
        let mut host = self.current.fork()?;
        std::mem::swap(&mut host, &mut self.current);
        // If it fails, the timeline stays where it was.
        let way = Way {
            from: self.status,
            run,
            stops: &stops,
            present: None,
        };
        let outcome = self.drive(&mut Which::Current, &way, wanted);
        match outcome {
            Ok(ran) => {
                let (status, here) = (self.status, ran.status.work);
                if status.ended.is_none() {
                    self.snapshots.add(Snapshot { status, host }, here);
                }
                self.status = ran.status;
                Ok(stopped(&ran))
            }
            Err(e) => {
                self.current = host;
                Err(e)
            }
        }
    }

    /// Keeps a snapshot of the present position until it is dropped by its number.
    ///
    /// # Errors
    /// No copy can be made, or there are very many.
    pub fn keep(&mut self) -> Result<u32> {
        if self.kept.len() >= MOST_KEPT {
            return Err(Failure::setup(format!(
                "{MOST_KEPT} snapshots are kept already: drop one first"
            )));
        }
        let number = self.kept.last_key_value().map_or(1, |(n, _)| n + 1);
        let (status, host) = (self.status, self.current.fork()?);
        self.kept.insert(number, Snapshot { status, host });
        Ok(number)
    }

    /// What is kept: number and position.
    pub fn kept(&self) -> impl Iterator<Item = (u32, Status)> {
        self.kept.iter().map(|(n, s)| (*n, s.status))
    }

    /// A replay of its own from where a kept snapshot is, which others cannot disturb.
    ///
    /// # Errors
    /// There is none of that number, or no copy can be made.
    pub fn fork_kept(&mut self, number: u32) -> Result<(Host, Status)> {
        let snapshot = self.kept.get_mut(&number);
        let snapshot = snapshot.ok_or_else(|| no_such(number))?;
        Ok((snapshot.host.fork()?, snapshot.status))
    }

    /// Goes to where a kept snapshot is.
    ///
    /// # Errors
    /// As [`Timeline::fork_kept`].
    pub fn goto_kept(&mut self, number: u32) -> Result<Stopped> {
        let (host, status) = self.fork_kept(number)?;
        self.forget_changes();
        (self.current, self.status) = (host, status);
        Ok(Stopped::There)
    }

    /// Drops a kept snapshot.
    ///
    /// # Errors
    /// There is none of that number.
    pub fn drop_kept(&mut self, number: u32) -> Result<()> {
        let dropped = self.kept.remove(&number).map(drop);
        dropped.ok_or_else(|| no_such(number))
    }

    /// Goes to a position, exactly.
    ///
    /// # Errors
    /// There is no such position, or divergence.
    pub fn goto(&mut self, point: Point, wanted: &mut dyn Wanted) -> Result<Stopped> {
        self.forget_changes();
        let (host, status, why) = self.visit(point, wanted)?;
        (self.current, self.status) = (host, status);
        Ok(match why {
            Why::Interrupted => Stopped::Interrupted,
            _ => Stopped::There,
        })
    }

    /// Goes to where so many events have happened in the process, or to its end if there are
    /// fewer.
    ///
    /// # Errors
    /// Divergence.
    pub fn goto_event(&mut self, event: u64, wanted: &mut dyn Wanted) -> Result<Stopped> {
        self.forget_changes();
        let (host, status, why) = self.behind_event(event, wanted)?;
        if why == Why::Interrupted {
            (self.current, self.status) = (host, status);
            return Ok(Stopped::Interrupted);
        }
        (self.current, self.status) = (host, status);
        Ok(match status.ended {
            Some(how) => Stopped::Ended(how),
            None => Stopped::There,
        })
    }

    /// A host right behind the event of this number, or where the process begins or ends.
    pub(super) fn behind_event(
        &mut self,
        event: u64,
        wanted: &mut dyn Wanted,
    ) -> Result<(Host, Status, Why)> {
        let start = self.start;
        // One where as many events have happened may stand ticks behind the last of them.
        let before = |s: &Status| s.point.event < event && s.ended.is_none() || s.point == start;
        let snapshot = self.snapshots.last_where(before);
        let snapshot = snapshot.ok_or_else(|| Failure::internal("the start has a snapshot"))?;
        let (mut host, status) = (snapshot.host.fork()?, snapshot.status);
        if status.point.event >= event {
            return Ok((host, status, Why::Until));
        }
        let way = Way {
            from: status,
            run: run_to(Point::behind_event(event)),
            stops: &Stops::default(),
            present: None,
        };
        let ran = self.drive(&mut Which::Other(&mut host), &way, wanted)?;
        Ok((host, ran.status, ran.why))
    }

    /// Goes to the end of the process.
    ///
    /// # Errors
    /// Divergence.
    pub fn goto_end(&mut self, wanted: &mut dyn Wanted) -> Result<Stopped> {
        self.goto_event(u64::MAX, wanted)
    }

    /// Goes to the beginning of the process.
    ///
    /// # Errors
    /// No copy can be made.
    pub fn goto_start(&mut self) -> Result<Stopped> {
        self.forget_changes();
        let first = self.snapshots.first();
        (self.current, self.status) = (first.host.fork()?, first.status);
        Ok(Stopped::Start)
    }

    /// A host that stands at a position, from the nearest snapshot before it.
    pub(super) fn visit(
        &mut self,
        point: Point,
        wanted: &mut dyn Wanted,
    ) -> Result<(Host, Status, Why)> {
        let snapshot = self
            .snapshots
            .last_where(|s| s.ended.is_none() && (s.point == point || s.point.is_before(&point)));
        let snapshot = snapshot.ok_or_else(|| {
            Failure::setup(format!("{point} is before the beginning of the process"))
        })?;
        let (mut host, status) = (snapshot.host.fork()?, snapshot.status);
        let way = Way {
            from: status,
            run: run_to(point),
            stops: &Stops::default(),
            present: Some(self.status.work.max(status.work)),
        };
        let ran = self.drive(&mut Which::Other(&mut host), &way, wanted)?;
        match ran.why {
            Why::Until | Why::Interrupted => Ok((host, ran.status, ran.why)),
            Why::Ended if ran.status.point == point => Ok((host, ran.status, Why::Until)),
            _ => Err(Failure::setup(format!(
                "the recording has no position {point}: it went past it to {}",
                ran.status.point
            ))),
        }
    }
}

/// To a position, past all stops.
pub(super) fn run_to(until: Point) -> Run {
    Run {
        until: Some(until),
        ..Run::to_the_end()
    }
}

pub(super) fn stopped(ran: &Ran) -> Stopped {
    match (ran.why, ran.status.ended) {
        (Why::Hit(hit), _) => Stopped::Hit(hit),
        (Why::Ended, Some(how)) => Stopped::Ended(how),
        (Why::Stepped, _) => Stopped::Stepped,
        (Why::Interrupted, _) => Stopped::Interrupted,
        _ => Stopped::There,
    }
}

fn no_such(number: u32) -> Failure {
    Failure::setup(format!("there is no kept snapshot {number}"))
}

fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(4 << 20) << 10
}
