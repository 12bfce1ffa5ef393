//! Calls that change the content of a file which is mapped shared: memory changes with it, of the
//! caller or of other processes, and a tape has to say so. The protocol that finds this out while
//! other processes run is in `sharing/changes.rs`.
//!
//! The caller's own maps are logged with its call, as memory that the call wrote. The others are
//! members of the group when the file changes, and log their maps of it at their next turn.
//! It makes no call that the guest could notice. Files that are changed by processes outside of
//! the recording are not seen.

mod part;

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use relive_host::sys;
use relive_kabi::Moves;

use super::Serial;
use super::sharing::Owed;
use crate::call::Call;
use crate::call::log::Log;
use crate::call::reply::Reply;
use crate::descriptor::status;
use crate::failure::{Failure, Result};
use crate::ids;
use crate::kernel::changed_files::{self, FileChange, FileOperand, PathTarget};
use crate::kernel::enter::interrupted;
use crate::kernel::generic::generic;
use crate::kernel::mapped::identity_at;
use crate::kernel::refuse::unsupported;
use crate::sharing::changes::{self, CHANGES, FileRange, Underway};
use crate::sharing::processes::PROCESSES;
use crate::sharing::users::USERS;
use crate::task::Task;

use part::{FileBefore, changed};

/// A call at hand that may change a file.
struct ChangingCall<'a> {
    serial: &'a Serial,
    target: FileChange,
    /// The file, if it is known before the call.
    file: Option<u64>,
    /// The announcement that others see while the call is made.
    underway: Option<Underway<'a>>,
    owed: Owed,
    /// Other processes map it.
    others: bool,
    /// The size of a file that the call names.
    size: Option<u64>,
    /// Claims to files that there were when others knew of the call.
    since: u64,
    /// The state of the file before, if any process maps it.
    before: Option<FileBefore>,
    /// A file that the call names by its path.
    pinned: Option<OwnedFd>,
}

impl Serial {
    /// Makes a call by `make`, or in its place; if it may change a file, the processes that map it
    /// hear of that, and the memory that it changes is noted for its event.
    ///
    /// # Errors
    /// Too many processes or files.
    pub(super) fn around_change(
        &self,
        task: &mut Task,
        call: &Call,
        make: &mut dyn FnMut(&mut Task, &Call) -> Result<Reply>,
    ) -> Result<Reply> {
        let Some(mut change) = self.begin_change(task, call)? else {
            return make(task, call);
        };
        let made = match change.make(task, call)? {
            Some(result) => Reply::Value(result),
            None => make(task, call)?,
        };
        if let Reply::Value(result) = made {
            change.end(task, call, result)?;
        }
        Ok(made)
    }

    /// If a call may change a file: prepares to log that change.
    fn begin_change(&self, task: &mut Task, call: &Call) -> Result<Option<ChangingCall<'_>>> {
        let Some(target) = changed_files::find_mappable(task, call) else {
            return Ok(None);
        };
        let mut change = ChangingCall {
            serial: self,
            target,
            file: None,
            underway: None,
            owed: Owed::new(self),
            others: false,
            size: None,
            since: 0,
            before: None,
            pinned: None,
        };
        change.find(task, call)?;
        Ok(Some(change))
    }
}

impl<'a> ChangingCall<'a> {
    /// Finds the file that the call changes, and makes sure that the processes that map it hear of
    /// it.
    fn find(&mut self, task: &mut Task, call: &Call) -> Result<()> {
        let announced = CHANGES
            .of(&self.serial.shm)
            .announce(changes::UNKNOWN_FILE, ids::thread_of(task.tid));
        // A process that claims a file from now on waits until the call is over.
        self.since = USERS.of(&self.serial.shm).clock();
        match self.target.file {
            FileOperand::Opened(_) => match changed_files::named(task, call) {
                PathTarget::File(file, size) => (self.file, self.size) = (Some(file), Some(size)),
                PathTarget::Nothing => {}
                PathTarget::Other => {
                    // The call may sleep.
                    self.since = u64::MAX;
                    return Ok(());
                }
            },
            _ if !USERS.of(&self.serial.shm).any() => {}
            FileOperand::Descriptor(argument) => self.file = identity_at(call.arg(argument) as i32),
            FileOperand::Named(path) => self.pin(task, call, path),
        }
        task.log.keeps_baton = true;
        match self.file.filter(|_| USERS.of(&self.serial.shm).any()) {
            Some(file) => self.look(task, call, file, announced),
            None => {
                self.underway = Some(announced);
                Ok(())
            }
        }
    }

    /// Holds the file that the call names.
    fn pin(&mut self, task: &Task, call: &Call, path: u8) {
        self.pinned = changed_files::pin(task, call, path);
        let Some(pinned) = &self.pinned else {
            if let PathTarget::File(file, size) = changed_files::named(task, call) {
                (self.file, self.size) = (Some(file), Some(size));
            }
            return;
        };
        self.file = identity_at(pinned.as_raw_fd());
        self.size = status(pinned.as_raw_fd()).map(|st| st.st_size as u64);
    }

    /// Makes sure that the processes that map the file hear of the change.
    fn look(
        &mut self,
        task: &mut Task,
        call: &Call,
        file: u64,
        mut underway: Underway<'a>,
    ) -> Result<()> {
        let (users, processes) = (USERS.of(&self.serial.shm), PROCESSES.of(&self.serial.shm));
        let baton = &self.serial.baton;
        // From here on the announcement delays only claims of this file.
        self.since = u64::MAX;
        self.others = false;
        underway.of(file);
        loop {
            if !users.mentions(file) {
                self.underway = Some(underway);
                return Ok(());
            }
            let Some(met) = users.change(processes, file, baton.process()) else {
                return Err(unsupported(call, "it changes one shared file too many"));
            };
            if !met.live {
                self.underway = Some(underway);
                break;
            }
            if met.forgotten {
                let what =
                    "it changes a file that is mapped shared, and too many others have read it";
                return Err(unsupported(call, what));
            }
            // No process may wait for this one while it waits for others.
            drop(underway);
            baton.meet()?;
            self.owed.join(self.serial, task)?;
            if !self.owed.meet(self.serial, task, &met.others)? {
                self.others = true;
                break;
            }
            underway = CHANGES
                .of(&self.serial.shm)
                .announce(file, ids::thread_of(task.tid));
        }
        let own = task.machine().memory().space.shares_file(file);
        self.before =
            (own || self.others).then(|| FileBefore::of(task, call, self.target, self.size));
        Ok(())
    }

    /// Makes the call here, where it must be made in another way.
    fn make(&mut self, task: &mut Task, call: &Call) -> Result<Option<i64>> {
        if let Some(result) = self.pinned.as_ref().and_then(|fd| cut(fd, call)) {
            return Ok(Some(result));
        }
        let waits = match call.row.map(|r| r.moves) {
            Some(Moves::ByPipe { flags, .. }) => Some(usize::from(flags)),
            _ => None,
        };
        let nonblock = u64::from(libc::SPLICE_F_NONBLOCK);
        let waits = waits.filter(|&flags| call.args[flags] & nonblock == 0);
        let (Some(flags), Some(from)) = (waits, call.input()) else {
            return Ok(None);
        };
        let mut at_once = *call;
        at_once.args[flags] |= nonblock;
        loop {
            let result = generic(task, &at_once)?;
            if result != -i64::from(libc::EAGAIN) {
                return Ok(Some(result));
            }
            // The process that fills the pipe may need the baton, or wait for the change.
            self.underway = None;
            let mut poll = libc::pollfd {
                fd: call.arg(from.fd) as i32,
                events: libc::POLLIN,
                revents: 0,
            };
            let args = [&raw mut poll as u64, 1, u64::MAX, 0, 0, 0];
            let woken = self.owed.wait(self.serial, task, libc::SYS_poll, &args)?;
            let woken = interrupted(task, call, woken);
            if woken < 0 {
                return Ok(Some(woken));
            }
            self.find(task, call)?;
        }
    }

    /// After the call: notes the memory that it has changed, and tells the others.
    ///
    /// # Errors
    /// The file was changed under a name that it got meanwhile, see [`Serial::refuse_unseen`].
    fn end(self, task: &mut Task, call: &Call, result: i64) -> Result<()> {
        self.owed.settle(self.serial, task)?;
        let opened = matches!(self.target.file, FileOperand::Opened(_));
        let file = match (opened, result >= 0) {
            (true, true) => identity_at(result as i32),
            (true, false) => None,
            (false, _) => self.file,
        };
        let Some(file) = file else { return Ok(()) };
        if opened && self.file != Some(file) {
            return self
                .serial
                .refuse_unseen(task, call, result as i32, file, self.since);
        }
        let Some(before) = &self.before else {
            return Ok(());
        };
        let users = USERS.of(&self.serial.shm);
        let cut = users.ever_cut(file);
        let Some(changed) = changed(call, self.target, before, &self.pinned, result, cut) else {
            return Ok(());
        };
        if changed.cut {
            users.cut(file);
        }
        let (start, end) = changed.part;
        if self.others {
            self.serial.baton.tell(FileRange { file, start, end });
        }
        let part = |start, end| FileRange { file, start, end };
        let (zeros, rest) = changed.zeros;
        note_views(task, part(start, zeros), Log::changed)?;
        note_views(task, part(zeros, rest), Log::zeroed)?;
        note_views(task, part(rest, end), Log::changed)
    }
}

/// Notes that memory has changed with this part of the file behind it.
fn note_views(task: &mut Task, part: FileRange, note: fn(&mut Log, u64, u64)) -> Result<()> {
    if part.start >= part.end {
        return Ok(());
    }
    let mut memory = task.machine().memory();
    let length = part.end - part.start;
    let views = memory.space.shared_views(part.file, part.start, length);
    let views: Vec<(u64, u64)> = views.collect();
    for &(start, end) in &views {
        memory.code_changed(start, end)?;
    }
    drop(memory);
    for (start, end) in views {
        note(&mut task.log, start, end - start);
    }
    Ok(())
}

/// Cuts the file that the call names, even if another one has that name by now. `None`: there is
/// no `/proc`.
fn cut(pinned: &OwnedFd, call: &Call) -> Option<i64> {
    let path = std::ffi::CString::new(format!("/proc/self/fd/{}", pinned.as_raw_fd())).ok()?;
    let args = [path.as_ptr() as u64, call.args[1], 0, 0, 0, 0];
    // SAFETY: only reads the path, which outlives the call.
    let result = (unsafe { sys::syscall(libc::SYS_truncate as u64, args) }) as i64;
    (result != -i64::from(libc::ENOENT)).then_some(result)
}

impl Serial {
    /// A file was cut under a name that it has got while it was opened.
    ///
    /// # Errors
    /// It is mapped shared: memory has changed, and no tape says so.
    fn refuse_unseen(
        &self,
        task: &Task,
        call: &Call,
        fd: i32,
        file: u64,
        since: u64,
    ) -> Result<()> {
        if !USERS.of(&self.shm).any() {
            return Ok(());
        }
        let own = task.machine().memory().space.shares_file(file);
        let me = self.baton.process();
        let other = USERS
            .of(&self.shm)
            .maps(PROCESSES.of(&self.shm), file, me, since);
        let Some(process) = other.or(own.then_some(me)) else {
            return Ok(());
        };
        let path = std::fs::read_link(format!("/proc/self/fd/{fd}"))
            .map_or_else(|_| format!("descriptor {fd}"), |p| p.display().to_string());
        let pid = PROCESSES.of(&self.shm).get(process);
        let pid = pid.map_or(0, |slot| slot.pid.load(Ordering::Relaxed));
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Err(Failure::unsupported(format!(
            "{} cuts {path:?}, which process {pid} ({}) of the recording maps shared, and the file came \
         to this name at the same moment: what changes is on no tape",
            call.name(),
            program.trim_end()
        )))
    }
}
