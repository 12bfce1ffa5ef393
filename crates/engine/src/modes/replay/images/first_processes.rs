//! The beginning of an excerpt: the processes that there were, each with its session image. All of them are
//! opened before the replay confines itself; then each process but the first is a fork that has no memory of
//! the guest's yet. Must never begin a process with another image than the recording names.

use relive_trace::{ImageReader, ImageSet, Trace};

use super::restore;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::modes::replay::births::{ForkSide, fork_host};
use crate::modes::replay::concurrency;
use crate::modes::replay::guided::track::Track;
use crate::modes::replay::hook_state;
use crate::modes::replay::host_thread::get_ready;
use crate::modes::replay::stepper::process::Stepper;
use crate::session_state::{ImageResult, Refused};

/// An image, and the process of which it is.
pub struct ProcessImage {
    process: u32,
    set: ImageSet,
    /// Its failure is the answer to the first order.
    image: ImageResult<ImageReader>,
}

impl ProcessImage {
    /// Opens an image; a failure is that of [`ProcessImage::resume`].
    pub fn open(trace: &Trace, set: ImageSet, process: u32, work: u64) -> Self {
        let image = ImageReader::open(trace.directory(), set, process, work);
        Self {
            process,
            set,
            image: image.map_err(Refused::from),
        }
    }

    /// The process of the image, with the way that its replay has gone.
    ///
    /// # Errors
    /// The image is damaged, or of another recording.
    pub fn resume(self, machine: &'static Machine) -> Result<(Stepper, Track)> {
        let (process, set) = (self.process, self.set);
        let resumed = self
            .image
            .and_then(|image| resume(machine, image, set, process));
        resumed.map_err(|refused| refused.failure(set))
    }
}

fn resume(
    machine: &'static Machine,
    mut image: ImageReader,
    set: ImageSet,
    process: u32,
) -> ImageResult<(Stepper, Track)> {
    let state = restore::state(&image, set, process)?;
    let mut tasks = restore::tasks(machine, &state)?;
    get_ready(&mut tasks[0])?;
    restore::memory(machine, &state, &mut image)?;
    let mut stepper = restore::stepper(machine, &state, tasks)?;
    if set == ImageSet::Epochs {
        hook_state::begin_at_output(image.head().order);
    }
    let track = Track::restore(state.replayed.track.clone());
    restore::check(&stepper, &track, &state)?;
    restore::write_exact(&mut stepper, set)?;
    Ok((stepper, track))
}

/// Opens the images with which a trace begins: all, or that of the first of the processes to `follow`; none
/// if it begins with its program.
pub fn open(trace: &Trace, follow: Option<&[u32]>) -> Vec<ProcessImage> {
    let Some(excerpt) = &trace.manifest().excerpt else {
        return Vec::new();
    };
    let first = follow.map(|processes| processes.first().copied());
    let wanted = excerpt.processes.iter();
    let wanted = wanted.filter(|p| first.is_none_or(|first| first == Some(p.process)));
    let open = |p: &relive_trace::BeginProcess| {
        ProcessImage::open(trace, ImageSet::Begin, p.process, p.work)
    };
    wanted.map(open).collect()
}

/// Begins the processes of these images, of which there is one at least: the first one here, each other one in
/// a fork of its own.
///
/// # Errors
/// An image is damaged, or the kernel refuses a process.
pub fn begin(machine: &'static Machine, mut images: Vec<ProcessImage>) -> Result<Stepper> {
    let none = || Failure::internal("an excerpt begins with processes");
    let all = images.len() as u32;
    let own = loop {
        let last = images.pop().ok_or_else(none)?;
        if images.is_empty() || fork_host(machine)? == ForkSide::Child {
            break last;
        }
    };
    let (stepper, _) = own.resume(machine)?;
    if let Some(shm) = machine.shm.as_ref() {
        concurrency::await_restored(shm, all)?;
    }
    Ok(stepper)
}
