//! `relive hunt`.

mod exchange;
pub mod found;
mod results;
mod turned_orders;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use relive_engine::Failure;
use relive_engine::supervisor::{self, EndStatus};
use relive_sched::Seed;
use relive_trace::Trace;

use self::exchange::{Announced, Exchange};
use self::found::{FoundRun, show_announced};
use self::turned_orders::TurnedOrders;
use crate::args::{HuntArgs, HuntMode};
use crate::attempts::{AttemptStart, attempt};
use crate::place::Place;
use crate::record::random_seed;
use crate::shard::Shard;
use crate::stats::Stats;
use crate::{format, interrupt, output, progress};

/// Time between two messages to the other parts of a hunt.
const BETWEEN_MESSAGES: Duration = Duration::from_secs(2);
/// Time between two looks whether it is time for one.
const TICK: Duration = Duration::from_millis(50);

/// A hunt, or this process's part of one, whose runs are made by one thread or by several at the same time.
struct Hunt<'a> {
    args: &'a HuntArgs,
    shard: Shard,
    /// The seeds of all runs follow from it.
    seed: Seed,
    /// Runs of this part that were begun.
    begun: AtomicU32,
    /// The orders of a run that has passed; one looks for them.
    orders: OnceLock<TurnedOrders>,
    looked: AtomicBool,
    /// No run is to begin, and those that were begun are to end.
    over: AtomicBool,
    gathered: Mutex<Gathered>,
}

#[derive(Default)]
struct Gathered {
    sum: Stats,
    /// The instructions by which threads met in all runs so far.
    sites: BTreeSet<u64>,
    /// All of this part's runs up to this one have not failed, and these behind it.
    done: u32,
    done_beyond: BTreeSet<u32>,
    /// The first reason to end the hunt.
    end: Option<End>,
}

enum End {
    Found(FoundRun),
    /// By another part of the hunt.
    Elsewhere(Announced),
    /// From the keyboard, in this run.
    Interrupted(u32),
    Failed(Failure),
}

/// Records until a run fails.
///
/// # Errors
/// Any failure of Relive.
pub fn execute(args: &HuntArgs) -> Result<EndStatus, Failure> {
    supervisor::find_program(args.guest.program(), args.guest.args())?;
    let shard = match args.results {
        Some(_) => Shard::find(args.shard)?,
        None => Shard::ALL,
    };
    let seed = args.seed.unwrap_or_else(random_seed);
    let place = args.results.as_deref();
    let exchange = place.map(|place| Exchange::join(place, args, shard, seed));
    let exchange = exchange.transpose()?;
    interrupt::watch();
    interrupt::hold();
    let hunt = Hunt {
        args,
        shard,
        seed: exchange.as_ref().map_or(seed, Exchange::seed),
        begun: AtomicU32::new(0),
        orders: OnceLock::new(),
        looked: AtomicBool::new(args.mode != HuntMode::Serial),
        over: AtomicBool::new(false),
        gathered: Mutex::default(),
    };
    if let Some(exchange) = &exchange {
        hunt.go_on_from(exchange)?;
    }
    let progress = progress::spinner("run", args.max.into());
    thread::scope(|scope| {
        let workers = (0..args.jobs).map(|_| scope.spawn(|| hunt.work(&progress)));
        let workers: Vec<_> = workers.collect();
        if let Some(exchange) = &exchange {
            hunt.talk(exchange, || workers.iter().all(|w| w.is_finished()));
        }
    });
    progress.finish_and_clear();
    interrupt::let_go();
    hunt.finish(exchange.as_ref())
}

impl Hunt<'_> {
    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered
            .lock()
            .expect("no thread panics: panics abort")
    }

    /// Leaves out the runs that this part made before it was stopped.
    fn go_on_from(&self, exchange: &Exchange) -> Result<(), Failure> {
        let done = exchange.done_before()?;
        self.begun.store(done, Ordering::Relaxed);
        self.gathered().done = done;
        self.hear(exchange)
    }

    /// Exchanges messages with the other parts until all runs are `made`.
    fn talk(&self, exchange: &Exchange, made: impl Fn() -> bool) {
        let mut last = Instant::now();
        while !made() {
            thread::sleep(TICK);
            if last.elapsed() < BETWEEN_MESSAGES || self.over.load(Ordering::Relaxed) {
                continue;
            }
            if let Err(failure) = self.tell(exchange).and_then(|()| self.hear(exchange)) {
                self.end(End::Failed(failure));
            }
            last = Instant::now();
        }
    }

    fn tell(&self, exchange: &Exchange) -> Result<(), Failure> {
        let (done, sites) = {
            let results = self.gathered();
            let sites: Vec<u64> = results.sites.iter().copied().collect();
            (results.done, sites)
        };
        exchange.tell(done, &sites)
    }

    fn hear(&self, exchange: &Exchange) -> Result<(), Failure> {
        if let Some(announced) = exchange.found()? {
            self.end(End::Elsewhere(announced));
        }
        let sites = exchange.sites()?;
        self.gathered().sites.extend(sites);
        Ok(())
    }

    /// Makes runs until the hunt is over.
    fn work(&self, progress: &ProgressBar) {
        while !self.over.load(Ordering::Relaxed) {
            let n = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
            let Some(run) = self.shard.run(n).filter(|&run| run <= self.args.max) else {
                return;
            };
            progress.set_position(run.into());
            match self.run(run) {
                Ok(None) => self.gathered().pass(n),
                Ok(Some(end)) => self.end(end),
                Err(failure) => self.end(End::Failed(failure)),
            }
        }
    }

    /// Makes a run; returns the end of the hunt, if it is that.
    fn run(&self, run: u32) -> Result<Option<End>, Failure> {
        // A fair schedule first: a program that always fails needs no unlikely one.
        let in_turns = self.args.mode == HuntMode::Serial;
        let seed = (run > 1).then(|| self.seed.nth(run));
        let near = self.orders.get();
        let turned = near.and_then(|near| Some((&near.orders, near.flips(run)?)));
        let place = Place::numbered(self.args.guest.program())?;
        let mut sites = self.gathered().sites.clone();
        sites.extend(turned.iter().flat_map(|(orders, _)| orders.sites()));
        let sites: Vec<u64> = sites.into_iter().collect();
        let began = Instant::now();
        let guest = &self.args.guest;
        let start = AttemptStart {
            program: guest.program(),
            args: guest.args(),
            surroundings: None,
            mode: self.args.mode,
            timeout: self.args.timeout,
            count: self.args.stats.stats.is_some(),
            seed,
            sites: &sites,
            flips: match &turned {
                Some((orders, flips)) => (orders.process, flips),
                None => (0, &[]),
            },
        };
        let outcome = match attempt(&place, &start, &self.over) {
            Ok(outcome) => outcome,
            Err(failure) => {
                place.remove()?;
                return Err(failure);
            }
        };
        if interrupt::came() {
            place.remove()?;
            return Ok(Some(End::Interrupted(run)));
        }
        // A run that was told to end tells nothing.
        let Some(outcome) = outcome.filter(|_| !self.over.load(Ordering::Relaxed)) else {
            place.remove()?;
            return Ok(None);
        };
        {
            let mut results = self.gathered();
            if let Some(stats) = &outcome.stats {
                results.sum.add(stats);
            }
            results.sites.extend(&outcome.sites);
        }
        if !outcome.failed() {
            self.look_around(&place, began.elapsed());
            place.remove()?;
            return Ok(None);
        }
        Ok(Some(End::Found(FoundRun {
            place,
            run,
            schedule: match (&turned, in_turns, seed) {
                (Some((orders, flips)), ..) => orders.show_all(flips),
                (None, false, None) => "threads on all cores".to_owned(),
                (None, false, Some(seed)) => format!("threads on all cores, chaos seed {seed}"),
                (None, true, None) => "fair schedule".to_owned(),
                (None, true, Some(seed)) => format!("chaos seed {seed}"),
            },
            outcome,
        })))
    }

    /// Finds the orders of the first run that has passed, for further runs to turn around. A program whose replay fails is hunted without.
    fn look_around(&self, place: &Place, took: Duration) {
        if self.looked.swap(true, Ordering::Relaxed) {
            return;
        }
        let trace = Trace::open(place.path()).map_err(Failure::setup);
        let found = trace.and_then(|trace| TurnedOrders::of(&trace, took, self.seed));
        match found {
            Ok(Some(orders)) => {
                // Nobody else looks.
                let _ = self.orders.set(orders);
            }
            Ok(None) => {}
            // The keyboard's interrupt reaches the replay, too.
            Err(_) if interrupt::came() => {}
            Err(failure) => output::complain(&format!(
                "the runs turn no orders around, as the first one cannot be replayed: {failure}"
            )),
        }
    }

    /// Notes the end of the hunt, unless another thread has: of two runs that failed one is kept.
    fn end(&self, end: End) {
        self.over.store(true, Ordering::Relaxed);
        let mut results = self.gathered();
        let end = match end {
            End::Found(found) => match found.settle(results.end.is_none(), self.args.timeout) {
                Ok(Some(found)) => End::Found(found),
                Ok(None) => return,
                Err(failure) => End::Failed(failure),
            },
            other => other,
        };
        results.end.get_or_insert(end);
    }

    /// Says how the hunt ended, here and to its other parts.
    fn finish(self, exchange: Option<&Exchange>) -> Result<EndStatus, Failure> {
        if let Some(exchange) = exchange {
            self.tell(exchange)?;
        }
        let (args, shard) = (self.args, self.shard);
        let results = self.gathered.into_inner().unwrap_or_default();
        match &results.end {
            Some(End::Interrupted(run)) => {
                output::complain(&format!("interrupted in run {run}; no run failed before"));
                return Ok(EndStatus::Signal(interrupt::first()));
            }
            Some(End::Failed(_)) => {}
            _ => {
                if let Some(how) = args.stats.stats {
                    results.sum.tell(how);
                }
            }
        }
        match results.end {
            Some(End::Failed(failure)) => Err(failure),
            Some(End::Found(found)) => {
                if let Some(exchange) = exchange {
                    found.announce(exchange, shard, args.timeout)?;
                }
                found.show(args.timeout)
            }
            Some(End::Elsewhere(announced)) => match exchange {
                Some(exchange) => show_announced(&announced, exchange, shard),
                None => Err(Failure::internal("an announcement from nowhere")),
            },
            Some(End::Interrupted(_)) | None => output::print(|out| {
                let runs = format::count(results.done.into(), "run");
                match shard {
                    Shard::ALL => writeln!(out, "no failure in {runs}")?,
                    _ => writeln!(out, "no failure in {runs} of shard {shard}")?,
                }
                Ok(())
            }),
        }
    }
}

impl Gathered {
    /// The `n`-th run of this part has not failed.
    fn pass(&mut self, n: u32) {
        self.done_beyond.insert(n);
        while self.done_beyond.remove(&(self.done + 1)) {
            self.done += 1;
        }
    }
}
