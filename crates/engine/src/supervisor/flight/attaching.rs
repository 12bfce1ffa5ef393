//! A recording that begins when somebody asks, in the midst of a run, and goes on from there. It begins with the copies that
//! the processes have made last; from then on the tapes go to disk, and there are no copies until it ends. Must never begin
//! with a copy behind which something has gone.

use std::time::{Duration, Instant};

use super::Flight;
use super::keeping::Keeping;
use super::onward::Onward;
use crate::failure::Failure;

/// Processes that are awake have made a copy by then; others have one from before they fell asleep.
const AWAKE: Duration = Duration::from_millis(100);
/// Copies that agree are waited for so long.
const PATIENCE: Duration = Duration::from_secs(10);

impl Flight {
    /// Begins a recording that goes on, if copies agree by now; they are looked for since then.
    pub(super) fn attach(&mut self, since: Instant) {
        if since.elapsed() < AWAKE && !self.store.tree.are_copied_since(since) {
            return;
        }
        if let Err(failure) = self.files.all_back(&self.store) {
            self.attaching = None;
            return self.note(Err(failure));
        }
        self.look();
        let (now, folder) = (Instant::now(), self.folder());
        let cut = self.store.tree.choose(now, true);
        let begun = match cut {
            Some(cut) => {
                self.goes_on = true;
                self.keeps += 1;
                let begun = Keeping::begin(&self.store, self.checkpoints(), cut, &folder);
                begun.map(|keeping| self.keeping = Some(keeping))
            }
            None if !self.forgot => match Onward::from_beginning(&self.store, &folder) {
                Ok(onward) => {
                    self.goes_onward(onward);
                    Ok(())
                }
                Err(failure) => {
                    // Half of a recording is of no use.
                    let _ = std::fs::remove_dir_all(&folder);
                    Err(failure)
                }
            },
            None if since.elapsed() < PATIENCE => return,
            None => Err(Failure::setup(
                "no recording can begin now: a process shares memory with others that write to it, or cannot be described \
                 for another reason (docs/limits.md, \"Flight recordings\"); ask again, or use relive record",
            )),
        };
        self.attaching = None;
        if let Err(failure) = begun {
            self.note(Err(failure));
        }
    }

    /// A recording has begun that goes on.
    pub(super) fn goes_onward(&mut self, onward: Onward) {
        self.tell(Ok(onward.folder()));
        self.onward = Some(onward);
        self.checkpoints().suspend(true);
        self.start_over();
    }

    /// The recording that goes on ends here, well or not.
    pub(super) fn end_onward(&mut self, failure: Option<Failure>) {
        let Some(onward) = self.onward.take() else {
            return;
        };
        let sofar = onward.sofar();
        let done = match failure {
            None => onward.finish(&self.store),
            Some(failure) => Err(failure),
        };
        if done.is_err() {
            // It is one that was cut off.
            self.kept.push(sofar);
        }
        self.start_over();
        self.since = Instant::now();
        self.checkpoints().suspend(false);
        self.checkpoints().want();
        self.note(done);
    }

    /// What stands on tapes up to now has gone.
    pub(super) fn start_over(&mut self) {
        let left = self.store.start_over();
        self.end(left);
        self.forgot = true;
    }
}
