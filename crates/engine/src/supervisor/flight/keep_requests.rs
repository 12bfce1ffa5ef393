//! What a flight recording is asked for, by the command, a signal, or the program: what there is by then becomes a recording, and
//! who has asked is answered. Must never leave half of a recording.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::keeping::Keeping;
use super::onward::Onward;
use super::plan::{ANSWER, FlightWindow, KeepRequest};
use super::{Flight, KeptFlight};
use crate::failure::{Failure, Result};
use crate::supervisor::forwarding;

impl Flight {
    /// What somebody asks for.
    pub(super) fn asked(&self) -> Option<KeepRequest> {
        let by_file = KeepRequest::take(&self.store.work);
        let others = [
            forwarding::asks_to_keep(),
            self.checkpoints().guest_asks_to_keep(),
        ];
        let past = others.contains(&true).then_some(KeepRequest::Past);
        by_file.or(past)
    }

    /// Does what is asked for, or says why not.
    pub(super) fn answer(&mut self, asked: KeepRequest) {
        match (asked, &self.onward) {
            (KeepRequest::Past, Some(_)) => self.end_onward(None),
            (KeepRequest::FromNow, Some(onward)) => {
                let folder = onward.folder().display();
                self.refuse(format!(
                    "it is recorded already, as {folder}: relive keep ends that recording"
                ));
            }
            (KeepRequest::Past, None) if self.plan.window == FlightWindow::Nothing => {
                self.refuse(
                    "nothing of the past is kept: relive keep --from-now records what comes",
                );
            }
            (KeepRequest::Past, None) => self.keep(),
            (KeepRequest::FromNow, None) => {
                self.checkpoints().want();
                self.attaching = Some(Instant::now());
            }
        }
    }

    fn refuse(&self, text: impl Into<String>) {
        self.tell(Err(&Failure::setup(text.into())));
    }

    pub(super) fn folder(&self) -> PathBuf {
        let place = &self.plan.place;
        match self.kept.len() {
            0 => place.clone(),
            n => {
                let mut name = place.as_os_str().to_owned();
                name.push(format!(".{}", n + 1));
                name.into()
            }
        }
    }

    /// Begins to keep what there is.
    pub(super) fn keep(&mut self) {
        self.goes_on = false;
        if let Err(failure) = self.files.all_back(&self.store) {
            return self.note(Err(failure));
        }
        let folder = self.folder();
        if !self.forgot {
            let done = self.store.write_whole(&folder);
            self.note(done);
            return;
        }
        self.look();
        let (tree, at) = (&self.store.tree, self.since().unwrap_or(self.store.began));
        let cut = tree.choose(at, true).or_else(|| tree.choose(at, false));
        let cut = cut.or_else(|| tree.choose_behind(at));
        tracing::debug!(target: "flight", "begins with {cut:?} of {tree:?}");
        let begun = match cut {
            Some(cut) => Keeping::begin(&self.store, self.checkpoints(), cut, &folder),
            None => Err(Failure::setup(
                "nothing can be kept: copies of the processes are gone. Memory may be short",
            )),
        };
        match begun {
            Ok(keeping) => {
                self.keeps += 1;
                self.keeping = Some(keeping);
            }
            Err(failure) => self.note(Err(failure)),
        }
    }

    /// Puts the recording together that is being kept, if all of its images have come.
    pub(super) fn finish_keeping(&mut self) {
        let Some(keeping) = self.keeping.take_if(|keeping| keeping.is_whole()) else {
            return;
        };
        let folder = keeping.folder.clone();
        self.lost = 0;
        let goes_on = self.goes_on && self.store.at_end.is_none();
        let assembled = keeping.assemble(&self.store, goes_on);
        let done = match assembled {
            Ok(assembled) if goes_on => return self.goes_onward(Onward::behind(assembled)),
            other => other.and_then(|assembled| assembled.finish(&self.store)),
        };
        if done.is_err() {
            // Half of a recording is of no use.
            let _ = std::fs::remove_dir_all(folder);
        }
        self.note(done);
    }

    /// A copy is gone with which a recording was to begin: its process may have replaced it.
    pub(super) fn keep_again(&mut self) {
        const TRIES: u32 = 3;
        self.lost += 1;
        if self.lost > TRIES {
            self.lost = 0;
            let text = "a copy of a process that was to be kept is gone: memory may be short";
            self.give_up(Failure::setup(text));
        } else if let Some(keeping) = self.keeping.take() {
            // It has nothing yet.
            let _ = std::fs::remove_dir_all(&keeping.folder);
            match self.goes_on {
                true => self.attaching = Some(Instant::now()),
                false => self.keep(),
            }
        }
    }

    pub(super) fn give_up(&mut self, failure: Failure) {
        if let Some(keeping) = self.keeping.take() {
            let _ = std::fs::remove_dir_all(&keeping.folder);
            self.note(Err(failure));
        }
    }

    /// Tells of what was kept, or not.
    pub(super) fn note(&mut self, done: Result<KeptFlight>) {
        self.tell(done.as_ref().map(|kept| &*kept.folder));
        match done {
            Ok(kept) => self.kept.push(kept),
            Err(failure) => self.failure = Some(failure),
        }
    }

    /// Answers who has asked.
    pub(super) fn tell(&self, answer: std::result::Result<&Path, &Failure>) {
        let answer = match answer {
            Ok(folder) => format!("{}\n", folder.display()),
            Err(failure) => format!("!{}\n", failure.text()),
        };
        // Whoever asked may be gone.
        let _ = std::fs::write(self.store.work.join(ANSWER), answer);
    }
}
