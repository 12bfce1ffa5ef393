//! Output that is held back until the order of all that happened before it is found (output commit of DoublePlay: Veeraraghavan and
//! others, ASPLOS 2011). The thread that is about to write makes a checkpoint in front of its call, and makes the call when
//! the epoch that ends there, and all before, are found. Must never let a byte out before.

use std::time::{Duration, Instant};

use super::Sketch;
use crate::call::Call;
use crate::descriptor::status;
use crate::failure::{Failure, Result};
use crate::image_stream::CHECKPOINTS;
use crate::kernel::stream_output;
use crate::modes::checkpoints::{has_plain_ids, is_plain};
use crate::task::Task;

/// How long a process may not be where it can be described, before its recording ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two tries.
const AGAIN: Duration = Duration::from_millis(1);

impl Sketch {
    /// Holds a call back that writes to the outside, if output is to be held back.
    ///
    /// # Errors
    /// The process cannot be described, so that no epoch ends here; the order of memory is lost.
    pub(super) fn commit_before(&self, task: &mut Task, call: &Call) -> Result<()> {
        let all = CHECKPOINTS.of(&self.shm);
        if !all.commits() || !leaves_program(task, call) {
            return Ok(());
        }
        let began = Instant::now();
        let work = self.end_epoch(task, began)?;
        self.rests(task, true)?;
        task.while_away(&mut || {
            all.await_commit(&self.shm, work);
            0
        });
        self.shm.need_supervisor()?;
        self.permit_again(task)?;
        all.held_output(began.elapsed());
        Ok(())
    }

    /// Makes a checkpoint in front of the call at hand: the work up to there.
    fn end_epoch(&self, task: &mut Task, began: Instant) -> Result<u64> {
        loop {
            let own = self.checkpoints.as_ref();
            let alone = self.turns().is_none() && self.shm.processes() == 1;
            let Some(own) = own.filter(|_| alone && is_plain(task) && has_plain_ids(self.shm))
            else {
                return Err(Failure::unsupported(
                    "output that is held back (--commit), of a program that makes processes or shares memory with others: \
                     leave out --commit",
                ));
            };
            task.flush_readings()?;
            task.arrived()?;
            let wanted = CHECKPOINTS.of(&self.shm).wanted();
            let quiet = task.quiesce_or_go_over()?;
            let made = self.copy_in_quiet(task, own, (wanted, Instant::now()), true);
            drop(quiet);
            if let Some(work) = made {
                return Ok(work);
            }
            if began.elapsed() > PATIENCE {
                return Err(Failure::unsupported(
                    "output that is held back (--commit), of a process that cannot be described: it maps files shared, or one of its \
                     threads does not come to a safe point. Leave out --commit",
                ));
            }
            self.rests(task, true)?;
            task.while_away(&mut || {
                std::thread::sleep(AGAIN);
                0
            });
        }
    }
}

/// Whether a call writes to where others than the program may see it: to a standard stream of the recording, a terminal or another device, a
/// pipe or a socket. Regular files are the program's own.
fn leaves_program(task: &Task, call: &Call) -> bool {
    let Some(end) = call.output() else {
        return false;
    };
    if stream_output::stream_of(task, call) != 0 {
        return true;
    }
    let Some(status) = status(call.arg(end.fd) as i32) else {
        return false;
    };
    let nowhere = libc::makedev(1, 3);
    match status.st_mode & libc::S_IFMT {
        libc::S_IFCHR => status.st_rdev != nowhere,
        libc::S_IFIFO | libc::S_IFSOCK => true,
        _ => false,
    }
}
