//! Progress of long work, on a terminal only.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// A bar that appears only when the work takes long.
pub struct Bar {
    bar: ProgressBar,
    started: Instant,
}

impl Bar {
    /// A bar for `total` bytes of work, called `what`.
    pub fn bytes(total: u64, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) =
            ProgressStyle::with_template("{msg} [{bar:30}] {bytes}/{total_bytes} {eta}")
        {
            bar.set_style(style);
        }
        bar.set_message(what);
        Self {
            bar,
            started: Instant::now(),
        }
    }

    /// A bar for work whose whole is known on the way.
    pub fn parts(what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {percent} % {eta}") {
            bar.set_style(style);
        }
        bar.set_message(what);
        Self {
            bar,
            started: Instant::now(),
        }
    }

    /// Sets how much of how much is done.
    pub fn of(&self, done: u64, all: u64) {
        self.bar.set_length(all);
        self.at(done);
    }

    /// Sets the number of bytes done.
    pub fn at(&self, done: u64) {
        // Standard error that is no terminal keeps the bar hidden (indicatif sees to that).
        if self.bar.is_hidden() && self.started.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A counter of `what` with the time that passes, for work of unknown length.
pub fn counter(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::no_length();
    let template = format!("{{spinner}} {{pos}} {what}, {{elapsed}} {{msg}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}

/// A counter of each `what` with the time that passes, for work whose end may come before.
pub fn spinner(what: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    let template = format!("{{spinner}} {what} {{pos}} of at most {{len}}, {{elapsed}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Shows on a [`spinner`] how many epochs of a recording, of how many, are found.
pub fn epochs(bar: &ProgressBar, found: usize, all: usize) {
    let template = "{spinner} the order of the threads: {pos} of {len} epochs, {elapsed}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_length(all as u64);
    bar.set_position(found as u64);
}
