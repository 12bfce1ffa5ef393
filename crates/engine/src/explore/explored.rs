//! Results of a search, kept in the trace: one line for each attempt, so that a search which was
//! interrupted goes on where it was. The search itself is a function of these lines. They may be a stranger's, and
//! then they mislead a search, and no more than that: no order is believed because of them.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::guide::races::Race;
use crate::guide::trials::Disagreement;
use crate::modes::replay::linear::hints::Hints;

/// Its name in a trace.
const NAME: &str = "explored";
/// Most bytes that are read.
const MOST_BYTES: u64 = 256 << 20;

/// The first line: orders are those of one version.
#[derive(Serialize, Deserialize, PartialEq)]
struct Head {
    explored: String,
}

/// A line.
#[derive(Serialize, Deserialize)]
enum Line {
    /// An order disagrees with the recording.
    Failed {
        hints: String,
        at: Disagreement,
        events: u64,
        #[serde(default)]
        work: u64,
        why: String,
    },
    /// The last races before that.
    Raced { hints: String, races: Vec<Race> },
    /// The search in a process begins with these orders, which go on from some decisions.
    Begun {
        base: String,
        process: u32,
        orders: Vec<String>,
    },
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedTrial {
    /// Where it left the recording.
    pub at: Disagreement,
    /// Events that it agreed with.
    pub events: u64,
    /// Work of its process up to there (`Trial::work`); 0: not known.
    pub work: u64,
    /// Both sides.
    pub why: String,
}

impl FailedTrial {
    /// Of a replay of all processes, which does not tell how much work one of them has done.
    pub fn of_whole(at: Disagreement, failure: &Failure) -> Self {
        Self {
            at,
            events: at.events,
            work: 0,
            why: failure.to_string(),
        }
    }
}

/// All that is known.
pub struct Explored {
    file: File,
    path: PathBuf,
    failed: HashMap<Hints, FailedTrial>,
    raced: HashMap<Hints, Vec<Race>>,
    begun: HashMap<(Hints, u32), Vec<Hints>>,
}

impl Explored {
    /// The results for the orders of a trace.
    ///
    /// # Errors
    /// The file cannot be read or made.
    pub fn open(trace: &Path) -> Result<Self> {
        let path = trace.join(NAME);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW).open(&path);
        let file = file.map_err(|e| cannot(&path, &e))?;
        // A lock of this process: a copy of it would go on to hold another kind.
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN | Errno::ACCESS) => {
                return Err(Failure::setup(
                    "another search for the order of this recording is running",
                ));
            }
            taken => taken.map_err(|e| cannot(&path, &e.into()))?,
        }
        let mut explored = Self {
            file,
            path,
            failed: HashMap::new(),
            raced: HashMap::new(),
            begun: HashMap::new(),
        };
        let whole = explored.read().map_err(|e| cannot(&explored.path, &e))?;
        let cut = explored.file.set_len(whole);
        cut.map_err(|e| cannot(&explored.path, &e))?;
        if whole == 0 {
            explored.put(&head())?;
        }
        Ok(explored)
    }

    /// Reads all lines up to the first that is none; how many bytes they are.
    fn read(&mut self) -> std::io::Result<u64> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::new((&self.file).take(MOST_BYTES));
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line)?;
        if serde_json::from_slice::<Head>(&line).ok() != Some(head()) {
            return Ok(0);
        }
        let mut whole = 0;
        let (mut failed, mut raced) = (HashMap::new(), HashMap::new());
        let mut begun = HashMap::new();
        loop {
            whole += line.len() as u64;
            line.clear();
            reader.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            let text = |hints: &str| Hints::from_text(hints);
            match serde_json::from_slice(&line) {
                Ok(Line::Failed {
                    hints,
                    at,
                    events,
                    work,
                    why,
                }) => {
                    let Some(hints) = text(&hints) else { break };
                    let trial = FailedTrial {
                        at,
                        events,
                        work,
                        why,
                    };
                    failed.insert(hints, trial);
                }
                Ok(Line::Raced { hints, races }) => {
                    let Some(hints) = text(&hints) else { break };
                    raced.insert(hints, races);
                }
                Ok(Line::Begun {
                    base,
                    process,
                    orders,
                }) => {
                    let orders: Option<Vec<Hints>> = orders.iter().map(|o| text(o)).collect();
                    let (Some(base), Some(orders)) = (text(&base), orders) else {
                        break;
                    };
                    begun.insert((base, process), orders);
                }
                Err(_) => break,
            }
        }
        (self.failed, self.raced, self.begun) = (failed, raced, begun);
        Ok(whole)
    }

    fn put(&mut self, line: &impl Serialize) -> Result<()> {
        let mut bytes = serde_json::to_vec(line).map_err(Failure::internal)?;
        bytes.push(b'\n');
        let written = self.file.write_all(&bytes);
        written.map_err(|e| cannot(&self.path, &e))
    }

    /// All failed attempts, in no order.
    pub fn all_failed(&self) -> impl Iterator<Item = (&Hints, &FailedTrial)> {
        self.failed.iter()
    }

    /// How an order failed, if it was tried.
    pub fn failed(&self, hints: &Hints) -> Option<&FailedTrial> {
        self.failed.get(hints)
    }

    /// How many orders have failed.
    pub fn count(&self) -> u32 {
        self.failed.len() as u32
    }

    /// The last races of an order, if they were looked for.
    pub fn raced(&self, hints: &Hints) -> Option<&[Race]> {
        self.raced.get(hints).map(Vec::as_slice)
    }

    /// An order has failed.
    ///
    /// # Errors
    /// It cannot be written down.
    pub fn add_failed(&mut self, hints: Hints, trial: FailedTrial) -> Result<()> {
        self.put(&Line::Failed {
            hints: hints.to_text(),
            at: trial.at,
            events: trial.events,
            work: trial.work,
            why: trial.why.clone(),
        })?;
        self.failed.insert(hints, trial);
        Ok(())
    }

    /// The last races of an order are known.
    ///
    /// # Errors
    /// As [`Explored::add_failed`].
    pub fn add_raced(&mut self, hints: Hints, races: Vec<Race>) -> Result<()> {
        self.put(&Line::Raced {
            hints: hints.to_text(),
            races: races.clone(),
        })?;
        self.raced.insert(hints, races);
        Ok(())
    }

    /// The orders with which the search in a process began that goes on from these decisions.
    pub fn begun(&self, base: &Hints, process: u32) -> Option<&[Hints]> {
        let begun = self.begun.get(&(base.clone(), process));
        begun.map(Vec::as_slice)
    }

    /// It begins with these.
    ///
    /// # Errors
    /// As [`Explored::add_failed`].
    pub fn begin(&mut self, base: &Hints, process: u32, orders: &[Hints]) -> Result<()> {
        self.put(&Line::Begun {
            base: base.to_text(),
            process,
            orders: orders.iter().map(Hints::to_text).collect(),
        })?;
        let key = (base.clone(), process);
        self.begun.insert(key, orders.to_vec());
        Ok(())
    }

    /// Nothing of it is needed any more.
    pub fn forget(&self) {
        // A file that stays does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn head() -> Head {
    Head {
        explored: format!("3 of relive {}", env!("CARGO_PKG_VERSION")),
    }
}

fn cannot(path: &Path, e: &std::io::Error) -> Failure {
    Failure::setup(format!(
        "{} cannot be used to keep the search ({e}): explore a copy of the recording that can be written",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::replay::linear::hints::{Decision, Place, What};

    fn hints(n: u64) -> Hints {
        let mut hints = Hints::default();
        let what = What::Way(n);
        let place = Place {
            process: 0,
            thread: 1,
            what,
        };
        hints.decide(Decision::Value(place, 7));
        hints
    }

    fn trial(events: u64) -> FailedTrial {
        FailedTrial {
            at: Disagreement {
                process: 0,
                thread: 1,
                moments: 2,
                ops: 3,
                ticks: 4,
                recorded: 5,
                events,
                page: 0,
            },
            events,
            work: 7,
            why: "two sides".to_owned(),
        }
    }

    #[test]
    fn what_was_tried_is_known_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut first = Explored::open(folder.path()).expect("new");
        first.add_failed(hints(1), trial(6)).expect("written");
        first.add_raced(hints(1), Vec::new()).expect("written");
        let orders = [hints(3), hints(2)];
        first.begin(&hints(1), 4, &orders).expect("written");
        drop(first);
        let again = Explored::open(folder.path()).expect("there");
        assert_eq!(again.begun(&hints(1), 4), Some(&orders[..]));
        assert_eq!(again.begun(&hints(1), 5), None);
        assert_eq!(again.failed(&hints(1)), Some(&trial(6)));
        assert_eq!(again.failed(&hints(2)), None);
        assert_eq!(again.raced(&hints(1)), Some(&[][..]));
    }

    #[test]
    fn a_line_that_was_cut_off_is_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(NAME);
        let mut first = Explored::open(folder.path()).expect("new");
        first.add_failed(hints(1), trial(6)).expect("written");
        let whole = std::fs::read(&path).expect("there").len();
        first.add_failed(hints(2), trial(7)).expect("written");
        drop(first);
        let all = std::fs::read(&path).expect("there");
        for end in whole..all.len() {
            std::fs::write(&path, &all[..end]).expect("cut");
            let mut again = Explored::open(folder.path()).expect("there");
            assert!(again.failed(&hints(1)).is_some() && again.failed(&hints(2)).is_none());
            again.add_failed(hints(2), trial(7)).expect("written");
            assert_eq!(std::fs::read(&path).expect("there"), all);
        }
    }

    #[test]
    fn another_version_knows_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(NAME), "{\"explored\":\"0\"}\n").expect("written");
        let explored = Explored::open(folder.path()).expect("there");
        assert!(explored.failed.is_empty());
    }
}
