//! A process in the memory of its parent that runs beside it (clone(2) with `CLONE_VM` and `CLONE_UNTRACED`): the
//! tracer that a leak checker makes. It is a host process, so that ids, signal actions, waiting for it and its end are
//! the kernel's; among the turns it is one more thread of its parent's. Must never use the thread-local storage of a
//! thread that runs.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use relive_host::signal::{Mask, set_mask, with_actions_of_library};
use relive_host::sys;
use relive_trace::{Kind, Origin, Start, TapeId};

use super::vfork::HostStack;
use crate::call::clone_args::{CloneArgs, FILES, FS, UNTRACED, VM};
use crate::failure::Result;
use crate::inherit;
use crate::mode::HandedOn;
use crate::ptrace::pokes;
use crate::task::Task;

/// The only flags with which such a process is made: it has a table of descriptors in common with its parent.
const FLAGS: u64 = VM | FS | FILES | UNTRACED;

/// A process that lodges in the memory of another.
pub struct Lodger {
    /// Its place among the threads of its parent.
    pub slot: u32,
    /// The place of the thread that made it.
    pub creator: u32,
    /// The kernel's id of its parent.
    pub parent: u32,
    /// The kernel's id of it.
    pub pid: u32,
    /// It has had its last turn.
    pub left: bool,
    room: LodgerRoom,
}

/// The memory that the host of a lodger uses, as long as it lives.
struct LodgerRoom {
    /// Cleared by the kernel when it has left.
    lives: Box<AtomicU32>,
    /// Given back behind it.
    _storage: Storage,
    _stack: HostStack,
}

impl Lodger {
    /// Whether it has not left the memory.
    pub fn lives(&self) -> bool {
        self.room.lives.load(Ordering::Acquire) != 0
    }

    /// Kills it, unless it is about to leave by itself, and waits until it has left.
    pub fn end(&self) {
        if !self.left && self.lives() {
            pokes::kill(self.pid);
        }
        while self.lives() {
            sys::futex_wait(&self.room.lives, 1, Some(50));
        }
    }

    /// In a forked child, which has copies of the memory: gives nothing back, as the C library has done that.
    pub fn forget(self) {
        std::mem::forget(self.room);
    }
}

/// Whether a task may make such a process, by such a call.
pub fn is_possible(task: &Task, args: &CloneArgs) -> bool {
    args.flags == FLAGS
        && args.stack != 0
        && args.signal <= 64
        && !task.lodges
        && task.vforked.is_none()
        && !crate::ids::may_differ()
}

/// Makes one, which waits for its first turn. `Err`: the kernel's errno.
///
/// # Errors
/// No room for its tape, or for the stack of its host.
pub fn start(task: &mut Task, args: &CloneArgs) -> Result<std::result::Result<Lodger, i32>> {
    let index = task.process.new_thread();
    let id = TapeId::new(task.process.index, index);
    let stack = HostStack::new()?;
    let storage = match Storage::new() {
        Ok(storage) => storage,
        Err(errno) => return Ok(Err(errno)),
    };
    let tape = task.mode().tape(id, &HandedOn::default())?;
    let lives = Box::new(AtomicU32::new(1));
    let birth = Box::into_raw(Box::new(LodgerBirth {
        task: inherit::lodger(task, args, index, 0, tape),
        parent: task.id(),
    }));
    task.machine().registry.begun();
    let old = set_mask(Mask(u64::MAX));
    let flags = FLAGS as i32 | libc::CLONE_SETTLS | libc::CLONE_CHILD_CLEARTID;
    // SAFETY: the child runs `child` on a stack and with a storage of its own, which are kept until the kernel has
    // cleared `lives`; `birth` is handed over to it, or taken back when there is none.
    let pid = unsafe {
        libc::clone(
            child,
            stack.top(),
            flags | args.signal as i32,
            birth.cast(),
            std::ptr::null_mut::<libc::pid_t>(),
            storage.base as *mut libc::c_void,
            lives.as_ptr(),
        )
    };
    let errno = std::io::Error::last_os_error().raw_os_error();
    set_mask(old);
    if pid < 0 {
        task.machine().registry.ended();
        // SAFETY: no process has taken it.
        drop(unsafe { Box::from_raw(birth) });
        return Ok(Err(errno.unwrap_or(libc::EAGAIN)));
    }
    Ok(Ok(Lodger {
        slot: index,
        creator: task.slot,
        parent: std::process::id(),
        pid: pid as u32,
        left: false,
        room: LodgerRoom {
            lives,
            _storage: storage,
            _stack: stack,
        },
    }))
}

/// The start data of the process.
struct LodgerBirth {
    task: Box<Task>,
    parent: TapeId,
}

extern "C" fn child(birth: *mut libc::c_void) -> i32 {
    // SAFETY: made by `start` for this process alone.
    let LodgerBirth { mut task, parent } = *unsafe { Box::from_raw(birth.cast::<LodgerBirth>()) };
    let pid = std::process::id();
    inherit::lodger_is(&mut task, pid);
    let ready = super::prepare_thread(&mut task);
    let start = Start {
        origin: Origin::Thread,
        parent,
        tid: pid,
        pid,
    };
    let mode = task.mode();
    let begun = ready.and_then(|()| mode.thread_begins(&mut task, Kind::Start(start)));
    super::finish_thread(&mut task, false, begun)
}

/// Thread-local storage of the C library's for a host that is none of its threads: that of a thread which has ended and
/// is joined when the host has left.
struct Storage {
    thread: libc::pthread_t,
    base: u64,
}

/// The storage of a thread that is about to end, and the thread's id, which comes last.
#[derive(Default)]
struct Lent {
    base: AtomicU64,
    thread: AtomicU32,
}

impl Storage {
    fn new() -> std::result::Result<Self, i32> {
        let lent = Lent::default();
        let mut thread = 0;
        let old = set_mask(Mask(u64::MAX));
        // SAFETY: the thread uses `lent` before it ends, and this one waits for its end.
        let error = unsafe {
            let place = (&raw const lent).cast_mut().cast();
            with_actions_of_library(|| {
                libc::pthread_create(&raw mut thread, std::ptr::null(), lend, place)
            })
        };
        set_mask(old);
        if error != 0 {
            return Err(error);
        }
        while lent.thread.load(Ordering::Acquire) == 0 {
            sys::futex_wait(&lent.thread, 0, None);
        }
        let (process, id) = (std::process::id(), lent.thread.load(Ordering::Acquire));
        // Nobody may see it among the threads of the process.
        while sys::has_thread(process, id) {
            std::thread::yield_now();
        }
        let base = lent.base.load(Ordering::Relaxed);
        Ok(Self { thread, base })
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: a thread that has ended, and that nobody else joins.
        unsafe { libc::pthread_join(self.thread, std::ptr::null_mut()) };
    }
}

extern "C" fn lend(lent: *mut libc::c_void) -> *mut libc::c_void {
    const GET_FS: u64 = 0x1003;
    // SAFETY: its creator waits until `thread` is set; behind that only the address is used.
    let lent = unsafe { &*lent.cast::<Lent>() };
    let mut base = 0_u64;
    // SAFETY: the kernel writes the base to a word of ours. The thread ends without the C library, which would take
    // its storage back.
    unsafe {
        let args = [GET_FS, &raw mut base as u64, 0, 0, 0, 0];
        sys::syscall(libc::SYS_arch_prctl as u64, args);
        lent.base.store(base, Ordering::Relaxed);
        lent.thread.store(sys::gettid(), Ordering::Release);
        sys::futex_wake(&lent.thread, 1);
        sys::exit_thread(0)
    }
}
