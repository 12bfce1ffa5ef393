//! The copy of a recorded process that a checkpoint makes. It is no process of the guest's: an orphan that comes to the
//! supervisor, with no descriptor and all signals blocked. It describes itself, writes that into a ring and ends. Must
//! never run an instruction of the guest's, nor change anything that the guest could see.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicU32, Ordering};

use relive_host::signal::{Mask, set_mask};
use relive_host::sys;
use relive_trace::TapeMark;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::resting::{RestingPlace, RestingTask};
use super::staying_files::StayingFile;
use crate::brief_process;
use crate::course::Course;
use crate::elapsed::Elapsed;
use crate::failure::{Failure, Result};
use crate::guide::point::Point;
use crate::image_stream::{
    CHECKPOINTS, CopyPlace, Prologue, TreeState, order, ring_of, send_failure,
};
use crate::memory::plain_memory::MemoryState;
use crate::session_state::{ReplayedState, SessionState, ThreadState, TrackState};
use crate::shm::Shm;
use crate::tape::{OrderState, Tape, TapeState};
use crate::task::Task;
use crate::task::plain_task::TaskState;

/// A copy that is about to be made.
pub struct PlannedCopy {
    /// The place in which it sleeps until it is wanted; `None`: it writes itself down at once.
    pub place: Option<CopyPlace>,
    /// The maps of files whose content it takes when it does so.
    pub stay: Vec<StayingFile>,
    /// Bytes of what else is mapped shared, which it makes its own at once.
    pub shared: u64,
}

/// What the copy cannot read any more: the process goes on meanwhile.
pub struct CopyPlan {
    /// Where the image goes.
    pub shm: Shm,
    /// What has been found out for it.
    pub copy: PlannedCopy,
    /// How far the tree is.
    pub tree: TreeState,
    /// The task that makes the checkpoint stands at a call in which it is about to sleep.
    pub in_call: bool,
    /// The past of the process.
    pub elapsed: Elapsed,
    /// Where each thread last gave its turn away.
    pub left: BTreeMap<u32, Point>,
    /// The turn at hand, counted on the schedule tape.
    pub turn: u32,
    /// Where that tape is.
    pub schedule: TapeMark,
    /// Where the first stack of the program began.
    pub stack: u64,
    /// Where the tape of the task is that makes the checkpoint.
    pub current: TapeState,
    /// All other threads, and where their tapes are.
    pub resting: Vec<(RestingTask, TapeState)>,
}

/// Where the tape of a thread at rest is.
pub fn tape_of(task: &Task) -> TapeState {
    match &task.tape {
        Tape::Out(tape) => TapeState::at(tape.mark()),
        _ => TapeState::at(TapeMark::default()),
    }
}

/// The same where threads take no turns: all of them are at rest at this moment, this one in a call, or not.
pub fn ordered_tape_of(task: &Task, in_call: bool, moment: u64) -> TapeState {
    let Tape::Out(tape) = &task.tape else {
        return TapeState::at(TapeMark::default());
    };
    let order = OrderState {
        // The call makes its operations once more.
        ops: if in_call {
            tape.ops_before_call
        } else {
            task.ctx.ops
        },
        marks: task.ctx.marks,
        clock: tape.course.as_ref().map_or(0, Course::last),
        moment,
        readings: tape.readings.count(),
        edges: task.ctx.edges().len() as u32,
    };
    TapeState::in_order(tape.mark(), order)
}

/// Most bytes of shared memory of which a copy is made while the guest waits.
pub const SHARED_MAX: u64 = 64 << 20;

/// A word by which the copy says that it has a memory of its own.
struct Separated(*const AtomicU32);

impl Separated {
    /// `None`: there is no memory for it.
    fn new() -> Option<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: fresh shared memory, zeros.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), 4096, prot, MapFlags::SHARED) };
        at.ok().map(|at| Self(at.cast_const().cast()))
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: mapped until this is dropped, and used by atomic operations alone.
        unsafe { &*self.0 }
    }

    /// Waits until the copy has said so, or is gone.
    fn wait(&self, copy: i32) {
        while self.word().load(Ordering::Acquire) == 0 {
            sys::futex_wait(self.word(), 0, Some(100));
            let flags = (libc::__WALL | libc::WNOHANG) as u64;
            // SAFETY: asks for a child, which has ended if there is an answer.
            let ended =
                unsafe { sys::syscall(libc::SYS_wait4 as u64, [copy as u64, 0, flags, 0, 0, 0]) };
            if ended != 0 {
                return;
            }
        }
    }

    fn say(&self) {
        self.word().store(1, Ordering::Release);
        sys::futex_wake(self.word(), 1);
    }
}

impl Drop for Separated {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; nothing refers to it any more.
        let _ = unsafe { munmap(self.0.cast_mut().cast(), 4096) };
    }
}

/// Makes the copy. If the kernel has no process to give, there is no checkpoint.
pub fn make(task: &Task, plan: &CopyPlan) {
    let separated = match plan.copy.shared {
        0 => None,
        _ => match Separated::new() {
            None => return,
            separated => separated,
        },
    };
    let copy = || {
        // A descriptor that the guest closes next must be open nowhere else: a listening socket's port is free then.
        // SAFETY: this process has a table of descriptors of its own, and uses none.
        unsafe {
            sys::syscall(
                libc::SYS_close_range as u64,
                [0, u64::from(u32::MAX), 0, 0, 0, 0],
            )
        };
        // A fork of the C library's: a thread that ends may be inside its allocator.
        // SAFETY: the caller's thread sleeps; the child has a memory of its own.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            run(task, plan, separated.as_ref());
        }
        if pid < 0 {
            not_made(plan);
        }
        if let (Some(separated), 1..) = (&separated, pid) {
            separated.wait(pid);
        }
        0
    };
    let old = set_mask(Mask(u64::MAX));
    // A process in between, which ends at once and without a signal, so that the copy is no child of the guest's.
    match brief_process::spawn(0, &copy) {
        Ok(between) => {
            let args = [between as u64, 0, libc::__WALL as u64, 0, 0, 0];
            // SAFETY: waits for a child that no guest knows of; nothing is written.
            while unsafe { sys::syscall(libc::SYS_wait4 as u64, args) } == -(libc::EINTR as isize) {
            }
        }
        Err(_) => not_made(plan),
    }
    set_mask(old);
}

/// There is no copy: its place is free.
fn not_made(plan: &CopyPlan) {
    let slot = plan
        .copy
        .place
        .and_then(|n| CHECKPOINTS.of(&plan.shm).copy(n));
    slot.inspect(|slot| slot.leave());
}

/// The life of the copy.
fn run(task: &Task, plan: &CopyPlan, separated: Option<&Separated>) -> ! {
    if let Some(separated) = separated {
        let stays = |start: u64| plan.copy.stay.iter().any(|file| file.start == start);
        let done = task.machine().memory().separate(|start| !stays(start));
        separated.say();
        if done.is_err() {
            sys::exit_group(0);
        }
    }
    // A page that cannot be read, as those behind a file's end, is found by its fault.
    set_mask(Mask::all_async());
    // SAFETY: signals to the guest's group are none to the copy.
    unsafe { sys::syscall(libc::SYS_setsid as u64, [0; 6]) };
    if let Some(number) = plan.copy.place {
        let slot = CHECKPOINTS.of(&plan.shm).copy(number);
        slot.inspect(|slot| slot.is(std::process::id()));
        let slot = slot.filter(|_| announce(task, plan).is_ok());
        while let Some(slot) = slot
            && slot.await_order(&plan.shm) == Some(order::WRITE)
        {
            slot.is_done(write_in_child(task, plan));
        }
        slot.inspect(|slot| slot.leave());
        sys::exit_group(0)
    }
    // Without an image there is one image less; the recording is whole all the same.
    if let Err(failure) = write(task, plan) {
        tracing::warn!(target: "checkpoint", "no image: {failure}");
    }
    sys::exit_group(0)
}

/// Tells of the copy, without looking at its memory.
fn announce(task: &Task, plan: &CopyPlan) -> Result<()> {
    let told = Prologue {
        sleeps: plan.copy.place,
        ..describe(task, plan)?
    };
    into_ring(task, plan, |ring| {
        told.send(plan.shm, ring, |_, _| Ok(Vec::new()))
    })
}

/// Another copy writes the image: this one may be wanted once more. Says whether it has done so.
fn write_in_child(task: &Task, plan: &CopyPlan) -> bool {
    // SAFETY: the copy has one thread.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        sys::exit_group(i32::from(write(task, plan).is_err()));
    }
    let mut status = -1;
    // SAFETY: waits for the child, and writes its status.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0
        && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
    {}
    status == 0
}

fn write(task: &Task, plan: &CopyPlan) -> Result<()> {
    into_ring(task, plan, |ring| {
        take_content(task, &plan.copy.stay)?;
        let image = image(task, plan)?;
        let memory = task.machine().memory();
        image.send(plan.shm, ring, |start, end| memory.content(start, end))
    })
}

/// Files that stay have their content as long as nobody changes them: takes it before it is looked at.
fn take_content(task: &Task, stay: &[StayingFile]) -> Result<()> {
    for file in stay {
        let memory = task.machine().memory();
        memory.separate(|start| start == file.start)?;
        if !file.has_stayed() {
            return Err(Failure::setup(format!(
                "{} has been changed or removed, which the program has mapped",
                file.path().display()
            )));
        }
    }
    Ok(())
}

fn into_ring(task: &Task, plan: &CopyPlan, send: impl FnOnce(u32) -> Result<()>) -> Result<()> {
    let ring = plan
        .shm
        .claim(ring_of(task.process.index), std::process::id())?;
    let written = send(ring);
    if let Err(failure) = &written {
        let _ = send_failure(plan.shm, ring, failure);
    }
    // Also of one that is not whole: its reader sees that.
    let state = &plan.shm.ring(ring).state;
    state.store(crate::shm::ring::state::CLOSED, Ordering::Release);
    plan.shm.wake_supervisor();
    written
}

fn image(task: &Task, plan: &CopyPlan) -> Result<Prologue> {
    let mut image = describe(task, plan)?;
    // The program may have a root without it, or be another user.
    let list = File::open("/proc/self/pagemap").ok();
    let memory = task.machine().memory();
    image.pages = memory.own_pages(list.as_ref())?;
    image.state.sum = image.state.sum.wrapping_add(memory.sum(list.as_ref())?.sum);
    Ok(image)
}

/// The description without the memory's content; its checksum is that of the registers alone.
fn describe(task: &Task, plan: &CopyPlan) -> Result<Prologue> {
    let mut sum = task.sum();
    let mut current = thread(task, &plan.current);
    if plan.in_call {
        before_call(&mut current.task);
    }
    let mut threads = vec![current];
    for (resting, tape) in &plan.resting {
        // SAFETY: this is a copy of the process, in which no other thread runs.
        let other = unsafe { resting.task() };
        sum = sum.wrapping_add(other.sum());
        let mut described = thread(other, tape);
        let state = &mut described.task;
        match resting.place {
            RestingPlace::Call => {
                before_call(state);
                state.parked = true;
            }
            RestingPlace::Start => (state.steps, state.exact) = (0, true),
            RestingPlace::Switch(steps) | RestingPlace::Instruction(steps) => {
                (state.steps, state.exact) = (steps, true);
            }
            RestingPlace::BeforeCall => before_call(state),
        }
        threads.push(described);
    }
    let mut map = task.machine().memory().capture();
    let files = as_replayed(&mut map, plan.copy.place.is_none());
    let maps_shared = !files.is_empty();
    let mut process = task.process.capture();
    // A replay makes no call that shows them, and keeps no descriptor.
    process.state.retained_fds = None;
    process.state.environ = Vec::new();
    process.state.auxv = Vec::new();
    process.state.streams.forget_others();
    let program = process.state.exe.clone();
    let ticks = task.ctx.ticks();
    let state = SessionState {
        process,
        threads,
        memory: map,
        shared_files: files.into_iter().collect(),
        turn: plan.turn,
        schedule: Some(plan.schedule),
        replayed: ReplayedState {
            events: plan.elapsed.events,
            turns: plan.elapsed.turns,
            children: BTreeMap::new(),
            maps_shared,
            track: TrackState {
                base: ticks,
                began: None,
                left: plan.left.clone(),
                work: plan.elapsed.work(),
                program,
                stack: plan.stack,
            },
        },
        sum,
    };
    state.check().map_err(Failure::internal)?;
    Ok(Prologue {
        turn: plan.elapsed.turns,
        ticks,
        state,
        pages: Vec::new(),
        sleeps: None,
        tree: plan.tree,
    })
}

/// The map as a replay has it, `alone` one of this process alone, which shares memory without a file with nobody. Gives
/// the files that are mapped shared, and where their maps end.
fn as_replayed(map: &mut MemoryState, alone: bool) -> BTreeMap<u64, u64> {
    let mut files = BTreeMap::new();
    for region in map.space.regions.iter_mut().filter(|r| r.shared) {
        region.common = true;
        if region.inode == 0 {
            if alone {
                (region.shared, region.traits.unnamed) = (false, 0);
            }
            continue;
        }
        let end = region.offset + (region.end - region.start);
        let known = files.entry(region.inode).or_insert(end);
        *known = end.max(*known);
    }
    files
}

/// A thread as a replay has it at its place.
fn thread(task: &Task, tape: &TapeState) -> ThreadState {
    let mut state = task.capture_recorded();
    state.parked = false;
    ThreadState {
        task: state,
        tape: Some(tape.clone()),
    }
}

/// A replay has not begun the call in which the thread is here: it stands at it.
fn before_call(state: &mut TaskState) {
    (state.steps, state.exact) = (0, true);
    // The mask that the call has for itself.
    if let Some(mask) = state.signals.saved_mask.take() {
        state.signals.mask = mask;
    }
}
