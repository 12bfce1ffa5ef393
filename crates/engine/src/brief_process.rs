//! A process that has the memory of its maker until it ends or replaces itself (clone(2), `CLONE_VFORK`): a copy of the
//! memory, of which all is dropped at once, would cost more than most of what it is made for. It must never return into
//! its maker's frames.

use std::io;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Bytes of its stack.
const STACK: usize = 1 << 18;

/// Starts one, whose maker gets `signal` at its end, 0 for none; the calling thread waits until it has left the memory.
/// `child` gives its status.
///
/// # Errors
/// The kernel has no process or no memory to give.
pub fn spawn(signal: i32, child: &dyn Fn() -> i32) -> io::Result<i32> {
    extern "C" fn enter(child: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the address of the reference below, which lives until the parent goes on.
        unsafe { (*child.cast::<&dyn Fn() -> i32>())() }
    }
    // SAFETY: fresh memory, which nobody else knows.
    let stack = unsafe {
        let (at, flags) = (std::ptr::null_mut(), MapFlags::PRIVATE | MapFlags::STACK);
        mmap_anonymous(at, STACK, ProtFlags::READ | ProtFlags::WRITE, flags)?
    };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | signal;
    let child = (&raw const child).cast_mut().cast();
    // SAFETY: the child has a stack of its own. It has this thread's thread-local storage, which the
    // thread does not use until the child has another memory; other threads find the allocator's locks
    // as they are. The child's descriptors, limits and signal actions are copies.
    let pid = unsafe { libc::clone(enter, stack.byte_add(STACK), flags, child) };
    let failed = io::Error::last_os_error();
    // SAFETY: the child has left this memory.
    unsafe { munmap(stack, STACK) }?;
    if pid < 0 { Err(failed) } else { Ok(pid) }
}
