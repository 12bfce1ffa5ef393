//! The order of atomic operations on memory that threads share, as parallel recording logs it.
//!
//! Each line of 64 bytes has an *object*, by a hash. Translated code holds it around an *ordered
//! instruction* (`relive_dbt`), the engine around a system call that belongs in the same order. An
//! object knows the thread that held it last, and the ordinal of that thread's operation. Where
//! another thread comes next, that thread logs an *edge*: its operation is behind that one.
//!
//! Translated code calls a routine here where it cannot have the object at once or an edge is due.
//! The guest's vector registers and FS are live then: nothing here that translated code runs may be
//! compiled code. An edge must never be dropped: without room for one the process ends.

pub(crate) mod edge;
mod log;
mod object;
mod routine;

use std::arch::x86_64::_rdtsc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

pub use edge::{EDGES, Edge};
pub use object::{HELD, LAST, OP, Object};
pub(crate) use routine::past_pending_check;

use crate::context::Context;
use crate::layout::{OBJECTS, OBJECTS_BYTES};
use crate::sys;

/// Number of objects.
const COUNT: u64 = OBJECTS_BYTES / size_of::<Object>() as u64;
/// Addresses with the same bits from here on have the same object.
pub const LINE_SHIFT: u32 = 6;
/// Factor of the hash: odd, its digits random.
pub const FACTOR: u32 = 0x9e37_79b1;
/// The hash is the product without this many low digits.
pub const HASH_SHIFT: u32 = 16;
const _: () = assert!(COUNT == 1 << (32 - HASH_SHIFT));

/// Whether the objects are there. Process-wide: they lie at a fixed address.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Makes the objects of this process; contexts made from now on have room for edges.
///
/// # Errors
/// The kernel's error number.
pub fn install() -> Result<(), i32> {
    /// Held while they are made. Process-wide: they lie at a fixed address.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().expect("no thread panics here");
    if INSTALLED.load(Ordering::Acquire) {
        return Ok(());
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let args = [
        OBJECTS,
        OBJECTS_BYTES,
        (libc::PROT_READ | libc::PROT_WRITE) as u64,
        flags as u64,
        u64::MAX,
        0,
    ];
    // SAFETY: the range is reserved for this mapping alone, and nothing is replaced.
    let got = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
    if got < 0 {
        return Err(-got as i32);
    }
    INSTALLED.store(true, Ordering::Release);
    Ok(())
}

/// Whether there are objects.
#[must_use]
pub fn is_installed() -> bool {
    INSTALLED.load(Ordering::Acquire)
}

/// Forgets the past of all objects, in a new process that has one thread.
///
/// # Errors
/// The kernel's error number.
pub fn forget() -> Result<(), i32> {
    if !is_installed() {
        return Ok(());
    }
    let args = [OBJECTS, OBJECTS_BYTES, libc::MADV_DONTNEED as u64, 0, 0, 0];
    // SAFETY: anonymous memory of the objects', which is zero afterwards; a value of each.
    match unsafe { sys::syscall(libc::SYS_madvise as u64, args) } {
        0 => Ok(()),
        refused => Err(-refused as i32),
    }
}

/// The object of the line that `addr` lies in.
///
/// # Panics
/// There are none.
#[must_use]
pub fn object_of(addr: u64) -> &'static Object {
    assert!(is_installed(), "there are no objects");
    let hash = ((addr >> LINE_SHIFT) as u32).wrapping_mul(FACTOR) >> HASH_SHIFT;
    // SAFETY: `install` has mapped as many as there are hashes, for the process's life; zeros are a
    // value, and all access is atomic.
    unsafe { &*(OBJECTS as *const Object).add(hash as usize) }
}

/// Words whose objects a thread holds at the same time.
pub struct HeldWords<'a>(&'a [u64]);

impl<'a> HeldWords<'a> {
    /// Puts them into the order in which each thread holds their objects: none of them waits for one that waits for it.
    ///
    /// # Panics
    /// There are no objects.
    pub fn sort(words: &'a mut [u64]) -> Self {
        words.sort_unstable_by_key(place);
        Self(words)
    }

    /// The words of each object, to [`hold`] one after the other.
    pub fn objects(&self) -> impl Iterator<Item = &'a [u64]> {
        self.0.chunk_by(|a, b| place(a) == place(b))
    }

    /// Gives all objects up, which have been held.
    pub fn release(self) {
        self.objects().for_each(|same| object_of(same[0]).release());
    }
}

fn place(word: &u64) -> *const Object {
    std::ptr::from_ref(object_of(*word))
}

/// Makes an operation for each of these words, which have one object, and holds it. Edges are logged: one at most.
///
/// # Panics
/// As [`Object::acquire`]; there are no words.
pub fn hold(same: &[u64], ctx: &mut Context) {
    ctx.ops += same.len() as u64 - 1;
    object_of(same[0]).acquire(ctx);
}

/// The time, in the processor's own unit, the same for all threads.
#[must_use]
pub fn now() -> u64 {
    // SAFETY: reads a counter that every processor has.
    unsafe { _rdtsc() }
}

/// The initial values for a new context: the routine, and room for edges.
pub(crate) fn in_use() -> (u64, Option<Box<[Edge; EDGES]>>) {
    // SAFETY: edges are plain integers, for which all-zero bytes are a value.
    let room = || unsafe { Box::new_zeroed().assume_init() };
    (routine::address(), is_installed().then(room))
}

/// For the signal handler, on a fault in the code cache: if an ordered instruction has faulted its
/// object is free again, with the operation before as its last. At once, as other threads may wait
/// for the object, and this one may next need an object that they hold. The translator takes back the count.
pub(crate) fn let_go(ctx: &mut Context) {
    if ctx.ordering != 0 {
        // SAFETY: a prologue has put the address of an object here, and holds it.
        let object = unsafe { &*(ctx.ordering as *const Object) };
        object.take_back(ctx.ops - 1);
        ctx.ordering = 0;
    }
}

impl Context {
    /// An ordered instruction has faulted: it is not counted.
    pub fn take_back_operation(&mut self) {
        self.ops -= 1;
        self.to_edge = self.to_edge.wrapping_sub(1);
    }
}

#[cfg(test)]
mod tests;
