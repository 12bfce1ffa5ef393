//! vfork(2) by clone(2): the child is a host process in the memory of its parent, whose thread sleeps.
//! It takes the parent's place in its task ([`crate::vforked`]) and runs on a stack of its own.

use std::sync::atomic::Ordering;

use relive_host::signal::{Mask, set_mask};
use relive_host::sys;
use relive_trace::{Kind, Origin, Start};

use crate::call::answer::NO_PROGRAM;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::failure::{FailureClass, Result};
use crate::kernel::{namespaces, tasks};
use crate::mode::Mode;
use crate::ptrace::newcomers;
use crate::ptrace::registers::{self, Words};
use crate::task::Task;
use crate::traced::Traced;
use crate::{ids, inherit, vforked};

/// A mode's part in the life of a process in its parent's memory.
pub trait Visits: Mode {
    /// In the child: its tape, before its first event.
    ///
    /// # Errors
    /// It can have none.
    fn child_begins(&self, _task: &mut Task) -> Result<()> {
        Ok(())
    }

    /// In the parent, when the child has left its memory: ended, or become another program.
    ///
    /// # Errors
    /// The turn that follows is lost.
    fn child_left(&self, _task: &mut Task) -> Result<()> {
        Ok(())
    }
}

/// A clone(2) that shares memory; the parent waits until the child has left it.
///
/// # Errors
/// No memory for the child's stack.
pub fn spawn(task: &mut Task, args: &CloneArgs, visits: &dyn Visits) -> Result<Reply> {
    if !namespaces::before_birth(task, args) {
        return Ok(Reply::Value(-i64::from(libc::EPERM)));
    }
    let index = task.machine().shm.map_or(0, |s| s.new_process());
    let mut pidfd = -1;
    let mut traced = task.traced.take();
    let words = registers::shown(task);
    let mut birth = VforkBirth {
        traced: &raw mut traced,
        words,
        task: std::ptr::from_mut(task),
        index,
        args: *args,
        visits,
    };
    // It may have got a turn in this call, which its event says. The child's calls are logged before that.
    let switched = task.log.switched;
    // The child runs, and threads beside it, before the parent's call is logged.
    task.flush_readings()?;
    let host_stack = HostStack::new()?;
    let parent = (std::process::id(), task.tid);
    task.machine().memory().translator.lend(true);
    // A signal that comes while the child has the context must not be noted there for the parent:
    // the kernel keeps all of them until the parent has the context again.
    let old = set_mask(Mask(u64::MAX));
    vforked::put_aside(task, args, None);
    task.machine().registry.visitor_comes();
    // SAFETY: the child runs `child` on a stack of its own while this thread sleeps; both
    // `birth` and the stack outlive it.
    let pid = unsafe {
        libc::clone(
            child,
            host_stack.top(),
            libc::CLONE_VM | libc::CLONE_VFORK | args.for_host() as i32,
            (&raw mut birth).cast(),
            &raw mut pidfd,
        )
    };
    let errno = std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EAGAIN);
    task.machine().registry.visitor_goes();
    if let Some(slot) = vforked::recorded(task, index) {
        slot.visit.end();
    }
    if let Some(member) = &task.member {
        member.runs_as(parent.0, parent.1);
        task.machine().registry.visitor_left(member);
    }
    if let Some(holder) = &task.holder {
        holder.goes_on();
    }
    drop(host_stack);
    let became = task.vforked.as_ref().and_then(|parent| parent.became());
    vforked::take_back(task);
    task.traced = traced;
    // The child may have been traced by itself.
    task.mode().host().take_all(task.traced.is_some());
    set_mask(Mask::all_async());
    visits.begin_slice(task);
    visits.child_left(task)?;
    task.machine().memory().translator.lend(false);
    set_mask(old);
    if pid < 0 {
        return Ok(Reply::Value(-i64::from(errno)));
    }
    task.log.clear();
    task.log.switched = switched;
    task.log.extra.extend_from_slice(&index.to_le_bytes());
    let became = became.unwrap_or(NO_PROGRAM);
    task.log.extra.extend_from_slice(&became.to_le_bytes());
    tasks::give_pidfd(task, args, pidfd)?;
    newcomers::is_left(task, i64::from(pid))?;
    Ok(Reply::Value(i64::from(pid)))
}

/// The start data of the child; on the parent's stack.
struct VforkBirth<'a> {
    task: *mut Task,
    index: u32,
    args: CloneArgs,
    visits: &'a dyn Visits,
    /// The parent's part in tracing, put aside.
    traced: *mut Option<Box<Traced>>,
    /// The parent's registers, as its stop shows them.
    words: Words,
}

extern "C" fn child(birth: *mut libc::c_void) -> i32 {
    // SAFETY: the parent sleeps in clone(2) until this process is gone from its memory.
    let birth = unsafe { &*birth.cast::<VforkBirth<'_>>() };
    // SAFETY: as above: nothing else uses the task meanwhile.
    let task = unsafe { &mut *birth.task };
    let begun = begin(birth, task);
    super::run_in_place(task, begun)
}

/// The task becomes that of the child, up to its first event.
fn begin(birth: &VforkBirth<'_>, task: &mut Task) -> Result<()> {
    let parent = task.id();
    let pid = std::process::id();
    inherit::vforked(task, &birth.args, birth.index, pid);
    if let Some(slot) = vforked::recorded(task, birth.index) {
        slot.pid.store(ids::process(), Ordering::Release);
        slot.visit.begin();
    }
    if let Some(member) = &task.member {
        member.runs_as(pid, pid);
    }
    birth.visits.child_begins(task)?;
    super::install_stack()?;
    set_mask(Mask::all_async());
    task.record(Kind::Start(Start {
        origin: Origin::Vfork,
        parent,
        tid: pid,
        pid,
    }))?;
    inherit::begin_vforked(task, &birth.args)?;
    // SAFETY: the parent sleeps until this process is gone from its memory.
    newcomers::visits(task, unsafe { (*birth.traced).as_mut() }, birth.words);
    set_mask(task.signals.mask.for_host());
    Ok(())
}

/// A host stack for a process in this memory.
pub(super) struct HostStack {
    base: u64,
}

impl HostStack {
    const SIZE: u64 = 512 * 1024;

    pub(super) fn new() -> Result<Self> {
        match sys::map_zeros(Self::SIZE, 0) {
            Ok(base) => Ok(Self { base }),
            Err(_) => Err(FailureClass::NoMemory.into()),
        }
    }

    pub(super) fn top(&self) -> *mut libc::c_void {
        (self.base + Self::SIZE) as *mut libc::c_void
    }
}

impl Drop for HostStack {
    fn drop(&mut self) {
        // SAFETY: the child that used it has left this memory.
        unsafe { sys::syscall(libc::SYS_munmap as u64, [self.base, Self::SIZE, 0, 0, 0, 0]) };
    }
}
