//! Threads of the guest as threads of the host: each new one gets a host thread, which runs its task.

use std::sync::atomic::{AtomicU32, Ordering};

use relive_host::signal::{Mask, set_mask, with_actions_of_library};
use relive_host::sys;
use relive_trace::{Kind, Origin, Start, TapeId};

use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::failure::{Result, answered};
use crate::inherit;
use crate::mode::HandedOn;
use crate::ptrace::newcomers;
use crate::task::Task;
use crate::traced::Traced;

/// Makes a thread of the process.
///
/// # Errors
/// No room for its tape.
pub fn make(task: &mut Task, args: &CloneArgs) -> Result<Reply> {
    let index = task.process.new_thread();
    let id = TapeId::new(task.process.index, index);
    let tape = task.mode().tape(id, &HandedOn::default())?;
    let mut child = inherit::thread(task, args, index, 0, tape);
    let birth = task.traced.as_ref().and_then(|t| t.birth);
    child.traced = birth.map(|slot| Box::new(Traced::born(slot)));
    child.member = task.machine().registry.enrol();
    let member = child.member.clone();
    let parent = task.id();
    task.machine().registry.begun();
    let words = [
        (libc::CLONE_PARENT_SETTID, args.parent_tid),
        (libc::CLONE_CHILD_SETTID, args.child_tid),
    ]
    .map(|(flag, at)| if args.has(flag) { at } else { 0 });
    let tid = match start_host_thread(child, parent, words) {
        Ok(tid) => tid,
        Err(errno) => {
            task.machine().registry.ended();
            if let Some(member) = member {
                task.machine().registry.withdraw(member, false);
            }
            return Ok(Reply::Value(-i64::from(errno)));
        }
    };
    // The slice at hand may be that of a thread that was alone.
    task.mode().begin_slice(task);
    task.log.extra.extend_from_slice(&index.to_le_bytes());
    words.into_iter().for_each(|at| task.log.wrote(at, 4));
    Ok(Reply::Value(i64::from(tid)))
}

/// The start data of a new host thread.
struct ThreadBirth {
    task: Box<Task>,
    parent: TapeId,
    /// Guest words that hold its id before it runs; 0 = none.
    words: [u64; 2],
    /// Set to the kernel's thread id by the new thread.
    tid: *const AtomicU32,
}

fn start_host_thread(
    task: Box<Task>,
    parent: TapeId,
    words: [u64; 2],
) -> std::result::Result<u32, i32> {
    let tid = AtomicU32::new(0);
    let birth = Box::into_raw(Box::new(ThreadBirth {
        task,
        parent,
        words,
        tid: &raw const tid,
    }));
    let made = spawn(host_thread, birth.cast());
    if let Err(error) = made {
        // SAFETY: no thread has taken it.
        drop(unsafe { Box::from_raw(birth) });
        return Err(error);
    }
    while tid.load(Ordering::Acquire) == 0 {
        sys::futex_wait(&tid, 0, None);
    }
    Ok(tid.load(Ordering::Acquire))
}

/// Makes a host thread that runs `main` with `birth`, all asynchronous signals blocked but the one that the C library lets through, which the
/// host's handler keeps back until the thread has a signal stack.
///
/// # Errors
/// The kernel's error number: there is none.
pub fn spawn(
    main: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void,
    birth: *mut libc::c_void,
) -> std::result::Result<(), i32> {
    const STACK: usize = 512 * 1024;
    let old = set_mask(Mask::all_async());
    // SAFETY: the attributes are initialised before use; `main` is for `birth`.
    let error = unsafe {
        let mut attr: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attr);
        libc::pthread_attr_setstacksize(&raw mut attr, STACK);
        libc::pthread_attr_setdetachstate(&raw mut attr, libc::PTHREAD_CREATE_DETACHED);
        let mut id = 0;
        let e = with_actions_of_library(|| {
            libc::pthread_create(&raw mut id, &raw const attr, main, birth)
        });
        libc::pthread_attr_destroy(&raw mut attr);
        e
    };
    set_mask(old);
    match error {
        0 => Ok(()),
        error => Err(error),
    }
}

extern "C" fn host_thread(birth: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: made by `start_host_thread` for this thread alone.
    let ThreadBirth {
        mut task,
        parent,
        words,
        tid,
    } = *unsafe { Box::from_raw(birth.cast::<ThreadBirth>()) };
    task.tid = sys::gettid();
    newcomers::begins(&task);
    // A bad address is no reason to fail: the kernel ignores it too.
    let told = words
        .into_iter()
        .filter(|&at| at != 0)
        .try_for_each(|at| answered(task.write(at, &task.tid.to_le_bytes())).map(drop));
    {
        // SAFETY: the parent waits until this word changes; afterwards it is not touched
        // (waking a futex does not read it).
        let word = unsafe { &*tid };
        word.store(task.tid, Ordering::Release);
        sys::futex_wake(word, 1);
    }
    let ready = super::prepare_thread(&mut task);
    let start = Start {
        origin: Origin::Thread,
        parent,
        tid: task.tid,
        pid: task.process.pid,
    };
    let mode = task.mode();
    let begun = told.and(ready);
    let begun = begun.and_then(|()| mode.thread_begins(&mut task, Kind::Start(start)));
    super::run(task, begun);
    std::ptr::null_mut()
}
