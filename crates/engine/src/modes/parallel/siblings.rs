//! The threads of the process, as they see each other: how far each has come. Must never wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::task::Task;

/// How a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Progress {
    /// It goes on, or waits for others.
    Runs,
    /// It has come to the end of its tape, and goes on if others wait for an operation of it.
    Rests,
    /// It stays for ever in a call that did not return in the recording.
    Stays,
    /// It has ended.
    Over,
}

/// No further moment of a thread is known.
pub const NO_MOMENT: u64 = u64::MAX;

/// The word of a context that says which operations are complete.
struct DoneWord(*const AtomicU64);

// SAFETY: the word is atomic, and its owner takes the pointer back before the context goes.
unsafe impl Send for DoneWord {}

/// A thread of the process.
pub struct Sibling {
    /// Its index in the process.
    pub thread: u32,
    done: Mutex<Option<DoneWord>>,
    standing: AtomicU32,
    /// The end of the first moment that it has yet to pass; [`NO_MOMENT`]: none.
    pub upcoming: AtomicU64,
    /// Its marks that it has passed.
    pub marks: AtomicU64,
    /// The last of its operations that another thread has waited for.
    wanted: AtomicU64,
    /// The call at hand has acquired the object of the process.
    pub holds: AtomicBool,
    /// The thread that its call has made, and that begins behind it.
    newborn: Mutex<Option<Box<Task>>>,
}

impl Sibling {
    fn new(thread: u32) -> Self {
        Self {
            thread,
            done: Mutex::new(None),
            standing: AtomicU32::new(Progress::Runs as u32),
            upcoming: AtomicU64::new(0),
            marks: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            holds: AtomicBool::new(false),
            newborn: Mutex::new(None),
        }
    }

    /// The thread begins to run its task.
    pub fn begins(&self, task: &Task) {
        *lock(&self.done) = Some(DoneWord(&raw const task.ctx.done));
    }

    /// Operations that are complete: all, once it has ended.
    pub fn done(&self) -> u64 {
        match &*lock(&self.done) {
            // SAFETY: the context is there until `stands` has taken the pointer back, under this lock.
            Some(word) => unsafe { &*word.0 }.load(Ordering::Acquire),
            // Asked under the lock: it is over before its word goes.
            None if self.standing() == Progress::Over => u64::MAX,
            None => 0,
        }
    }

    /// How it stands.
    pub fn standing(&self) -> Progress {
        match self.standing.load(Ordering::Acquire) {
            1 => Progress::Rests,
            2 => Progress::Stays,
            3 => Progress::Over,
            _ => Progress::Runs,
        }
    }

    /// It stands otherwise from now on; its task goes if it is over.
    pub fn stands(&self, standing: Progress) {
        if standing != Progress::Runs {
            self.upcoming.store(NO_MOMENT, Ordering::Release);
        }
        self.standing.store(standing as u32, Ordering::Release);
        if standing == Progress::Over {
            *lock(&self.done) = None;
        }
    }

    /// Another thread waits for its operation.
    pub fn wants(&self, op: u64) {
        self.wanted.fetch_max(op, Ordering::AcqRel);
    }

    /// Whether another thread waits for an operation that it has not made.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire) > self.done()
    }

    /// Its call has made a thread.
    pub fn bears(&self, child: Box<Task>) {
        *lock(&self.newborn) = Some(child);
    }

    /// The thread that its call has made.
    pub fn take_newborn(&self) -> Option<Box<Task>> {
        lock(&self.newborn).take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics: panics abort")
}

/// The threads of the process. There may have been many more than there are.
pub struct Siblings {
    /// All that there have been.
    all: Threads,
    /// Those that have not ended.
    alive: Threads,
    /// One of them ends the process.
    ended: AtomicBool,
}

/// The threads. Process-wide: they are the threads of this process, and what waits for
/// them has no more than a task at hand.
pub static SIBLINGS: Siblings = Siblings {
    all: RwLock::new(BTreeMap::new()),
    alive: RwLock::new(BTreeMap::new()),
    ended: AtomicBool::new(false),
};

impl Siblings {
    /// A thread is about to be made.
    pub fn add(&self, thread: u32) -> Arc<Sibling> {
        let sibling = Arc::new(Sibling::new(thread));
        for threads in [&self.all, &self.alive] {
            write(threads).insert(thread, Arc::clone(&sibling));
        }
        sibling
    }

    /// A thread has ended. Whether it was the last one.
    pub fn over(&self, thread: &Sibling) -> bool {
        thread.stands(Progress::Over);
        let mut alive = write(&self.alive);
        alive.remove(&thread.thread);
        alive.is_empty()
    }

    /// A thread is about to end the process. Whether it is the first: the others leave that to it.
    pub fn ends_process(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    /// The thread with an index, if it has been made.
    pub fn get(&self, thread: u32) -> Option<Arc<Sibling>> {
        read(&self.all).get(&thread).map(Arc::clone)
    }

    /// Whether `test` holds for all that have not ended; it must not ask for them itself.
    pub fn all_alive(&self, mut test: impl FnMut(&Sibling) -> bool) -> bool {
        read(&self.alive).values().all(|thread| test(thread))
    }
}

type Threads = RwLock<BTreeMap<u32, Arc<Sibling>>>;

fn read(threads: &Threads) -> RwLockReadGuard<'_, BTreeMap<u32, Arc<Sibling>>> {
    threads.read().expect("no thread panics: panics abort")
}

fn write(threads: &Threads) -> RwLockWriteGuard<'_, BTreeMap<u32, Arc<Sibling>>> {
    threads.write().expect("no thread panics: panics abort")
}
