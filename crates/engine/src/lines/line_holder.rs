//! One thread among those that share lines: its table of permissions, and whether it is at rest. Must never let another
//! thread change the table while its own one runs.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use relive_host::permissions::Permissions;
use relive_host::sys;
use smallvec::SmallVec;

/// The number of a place at which a thread has given lines up, from 1.
pub type Mark = u64;

/// Marks of other threads, by their indices; 0: the end of the thread.
pub type MarksBehind = SmallVec<[(u32, Mark); 4]>;

mod rest {
    /// The thread runs, or its host does.
    pub const ACTIVE: u32 = 0;
    /// It stands at a mark.
    pub const RESTS: u32 = 1;
    /// And another thread changes its table.
    pub const TAKEN: u32 = 2;
}

/// A thread.
pub struct Holder {
    /// Its index in the process.
    pub thread: u32,
    /// Its permissions.
    pub table: Permissions,
    /// A table without any.
    none: &'static Permissions,
    /// The word from which translated code takes the address of a table.
    looked_up: u64,
    rest: AtomicU32,
    /// The mark at which it rests.
    mark: AtomicU64,
    /// Another thread waits for one of its lines.
    asked: AtomicBool,
    /// Changes when it has got a line that it waits for.
    woken: AtomicU32,
    sleeps: AtomicBool,
    /// The kernel's ids of its process and thread.
    pub ids: (u32, u32),
}

impl Holder {
    /// A thread that runs, with nothing permitted; translated code takes the address of its table from
    /// `looked_up`, which lives as long as the thread.
    ///
    /// # Errors
    /// The kernel's error number: no memory.
    pub fn new(
        thread: u32,
        ids: (u32, u32),
        looked_up: &AtomicU64,
        none: &'static Permissions,
    ) -> Result<Self, i32> {
        let holder = Self {
            thread,
            table: Permissions::new()?,
            none,
            looked_up: std::ptr::from_ref(looked_up) as u64,
            rest: AtomicU32::new(rest::ACTIVE),
            mark: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            woken: AtomicU32::new(0),
            sleeps: AtomicBool::new(false),
            ids,
        };
        holder.looks_at_own();
        Ok(holder)
    }

    fn looked_up(&self) -> &AtomicU64 {
        // SAFETY: a word of the thread's context, which is there until the thread has withdrawn; after that nobody has
        // its holder from the directory, and its own thread does not ask.
        unsafe { &*(self.looked_up as *const AtomicU64) }
    }

    /// Its code finds its own permissions.
    pub fn looks_at_own(&self) {
        self.asked.store(false, Ordering::SeqCst);
        self.looked_up()
            .store(self.table.address(), Ordering::SeqCst);
    }

    /// Its code finds that nothing is permitted, and so comes to the host.
    pub fn is_asked(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.looked_up()
            .store(self.none.address(), Ordering::SeqCst);
    }

    /// Its code finds nothing any more: the thread ends.
    pub fn withdraws(&self) {
        self.looked_up()
            .store(self.none.address(), Ordering::SeqCst);
    }

    /// Whether another thread waits for it.
    pub fn has_been_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// A thread that shares its memory with none is permitted what lies around these lines.
    pub fn permit_around(&self, lines: Range<u32>) {
        const AROUND: u32 = 1 << 14;
        let first = lines.start & !(AROUND - 1);
        let count = lines.end.next_multiple_of(AROUND) - first;
        self.table.permit_all(first, count.into());
    }

    /// It rests at a mark from here on.
    pub fn rests(&self, mark: Mark) {
        self.mark.store(mark, Ordering::Relaxed);
        self.rest.store(rest::RESTS, Ordering::SeqCst);
    }

    /// It goes on, when no other thread changes its table.
    pub fn goes_on(&self) {
        let (ok, no) = (Ordering::SeqCst, Ordering::Relaxed);
        loop {
            match self
                .rest
                .compare_exchange_weak(rest::RESTS, rest::ACTIVE, ok, no)
            {
                Ok(_) | Err(rest::ACTIVE) => return,
                Err(_) => std::hint::spin_loop(),
            }
        }
    }

    /// Keeps it at rest, if it is: the mark. [`Holder::let_go`] must follow.
    pub fn hold_still(&self) -> Option<Mark> {
        let (from, to) = (rest::RESTS, rest::TAKEN);
        let held = self
            .rest
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        held.is_ok().then(|| self.mark.load(Ordering::Relaxed))
    }

    /// It may go on.
    pub fn let_go(&self) {
        self.rest.store(rest::RESTS, Ordering::SeqCst);
    }

    /// For [`Holder::sleep`].
    pub fn wakings(&self) -> u32 {
        self.woken.load(Ordering::SeqCst)
    }

    /// Another thread has given up what it waits for.
    pub fn wake(&self) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        if self.sleeps.load(Ordering::SeqCst) {
            sys::futex_wake(&self.woken, 1);
        }
    }

    /// Looks for a moment whether it has been woken since this number of wakings.
    pub fn spin(&self, since: u32) -> bool {
        const ROUNDS: u32 = 4000;
        for _ in 0..ROUNDS {
            if self.woken.load(Ordering::Acquire) != since {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Sleeps until it has been woken since this number of wakings, or for no reason.
    pub fn sleep(&self, since: u32) {
        self.sleeps.store(true, Ordering::SeqCst);
        if self.woken.load(Ordering::SeqCst) == since {
            sys::futex_wait(&self.woken, since, None);
        }
        self.sleeps.store(false, Ordering::SeqCst);
    }
}
