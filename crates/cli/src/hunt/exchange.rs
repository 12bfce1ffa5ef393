//! The messages between the parts of a divided hunt. The first part to come decides the hunt's seed; the
//! first that finds a failing run ends all others; and each tells now and then how far it is, and at which
//! instructions threads met. A part that was stopped and begins again goes on where it was.

use std::path::Path;
use std::sync::Mutex;

use relive_engine::Failure;
use relive_sched::Seed;
use relive_trace::Trace;
use serde::{Deserialize, Serialize};

use super::results::Results;
use crate::args::HuntArgs;
use crate::pack::pack;
use crate::shard::Shard;

const VERSION: u32 = 1;
const HUNT: &str = "hunt.json";
const FOUND: &str = "found.json";

/// The hunt that all parts take part in.
#[derive(Default, Serialize, Deserialize, PartialEq)]
struct Agreed {
    version: u32,
    command: Vec<String>,
    max: u32,
    shards: u32,
    seed: String,
}

/// A failing run, as the part that found it tells the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Announced {
    /// Its number in the hunt.
    pub run: u32,
    /// The part that found it.
    pub shard: u32,
    /// How it failed.
    pub how: String,
    /// Its schedule.
    pub schedule: String,
    /// The packed recording, by its name among the results.
    pub file: String,
}

/// How far a part is.
#[derive(Default, Serialize, Deserialize, PartialEq)]
struct Progress {
    /// So many of its runs have not failed.
    done: u32,
    sites: Vec<u64>,
}

/// A part's end of it.
pub struct Exchange {
    results: Results,
    shard: Shard,
    seed: Seed,
    /// The last progress that was told.
    told: Mutex<Progress>,
}

impl Exchange {
    /// Joins the hunt at the place that the arguments name; `seed` is the hunt's if no other part has come
    /// before.
    ///
    /// # Errors
    /// The place is not usable, or belongs to another hunt.
    pub fn join(place: &str, args: &HuntArgs, shard: Shard, seed: Seed) -> Result<Self, Failure> {
        let results = Results::open(place)?;
        let words = std::iter::once(args.guest.program());
        let words = words.chain(args.guest.args().iter().map(|arg| &**arg));
        let own = Agreed {
            version: VERSION,
            command: words.map(|w| w.to_string_lossy().into_owned()).collect(),
            max: args.max,
            shards: shard.of,
            seed: seed.to_string(),
        };
        results.write_first(HUNT, &own)?;
        let there: Agreed = results.read(HUNT)?.unwrap_or_default();
        let seeds = args.seed.is_none() || there.seed == own.seed;
        let same = Agreed {
            seed: there.seed.clone(),
            ..own
        };
        let agreed = there.seed.parse().ok();
        let Some(seed) = agreed.filter(|_| seeds && there == same) else {
            return Err(Failure::setup(format!(
                "{} is of another hunt (program, --max, --seed or number of shards): use a place of its own for each",
                results.shown(HUNT)
            )));
        };
        Ok(Self {
            results,
            shard,
            seed,
            told: Mutex::default(),
        })
    }

    /// The seed of the hunt.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// How many runs this part had made when it last told, before it began again.
    ///
    /// # Errors
    /// The store's.
    pub fn done_before(&self) -> Result<u32, Failure> {
        let name = progress_of(self.shard.index);
        let before: Option<Progress> = self.results.read(&name)?;
        Ok(before.map_or(0, |before| before.done))
    }

    /// Tells how far this part is, if that is new.
    ///
    /// # Errors
    /// The store's.
    pub fn tell(&self, done: u32, sites: &[u64]) -> Result<(), Failure> {
        let now = Progress {
            done,
            sites: sites.to_vec(),
        };
        let mut told = self.told.lock().expect("no thread panics: panics abort");
        if *told != now {
            self.results.write(&progress_of(self.shard.index), &now)?;
            *told = now;
        }
        Ok(())
    }

    /// The sites that the other parts have found.
    ///
    /// # Errors
    /// The store's.
    pub fn sites(&self) -> Result<Vec<u64>, Failure> {
        let mut sites = Vec::new();
        for index in (1..=self.shard.of).filter(|&index| index != self.shard.index) {
            let there: Option<Progress> = self.results.read(&progress_of(index))?;
            sites.extend(there.into_iter().flat_map(|there| there.sites));
        }
        Ok(sites)
    }

    /// The failing run that a part has announced.
    ///
    /// # Errors
    /// The store's.
    pub fn found(&self) -> Result<Option<Announced>, Failure> {
        self.results.read(FOUND)
    }

    /// Sends a recording that failed, and announces it; `false`: another part was first.
    ///
    /// # Errors
    /// The recording is damaged; the store's.
    pub fn announce(&self, trace: &Path, announced: &Announced) -> Result<bool, Failure> {
        let trace = Trace::open(trace).map_err(Failure::setup)?;
        let folder = tempfile::tempdir().map_err(Failure::setup)?;
        let packed = folder.path().join("packed");
        pack(&trace, &packed, false)?;
        self.results.send(&packed, &announced.file)?;
        let first = self.results.write_first(FOUND, announced)?;
        if !first {
            self.results.remove(&announced.file)?;
        }
        Ok(first)
    }

    /// Where a recording that was sent is.
    pub fn shown(&self, announced: &Announced) -> String {
        self.results.shown(&announced.file)
    }
}

fn progress_of(index: u32) -> String {
    format!("shards/{index}.json")
}
