//! The guest threads of this host process, and how one of them brings all others to rest: *quiesce*.
//!
//! Where threads run together each has a [`Member`] whose word is its state. A thread that asks
//! for quiet waits until every other one is *at rest*: parked at a safe point, or in the kernel with
//! nothing of the guest's lent to it. Those that run guest code are called out of it; those in the
//! host's code come to such a place by themselves. They stay there until the quiet is over. In other
//! modes there are no members, only their number. See docs/internals/quiesce.md.
//!
//! Must never be asked by a thread that holds a lock: another one may need it to come to rest.

#[cfg(test)]
mod model;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use relive_host::call_out::call_out;
use relive_host::sys;

use crate::ended::EndedThreads;

/// The errno, never seen by the guest, of a call for which all other threads must be at rest: nothing has
/// been done, and it is made again when they are.
pub const NOT_QUIET: i32 = 600;

/// The values of a member's word.
mod word {
    /// Runs the host's code: it may hold locks and be in the allocator.
    pub const HOST: u32 = 0;
    /// Runs translated code, or is about to, or has just left it.
    pub const GUEST: u32 = 1;
    /// Is in the kernel with nothing of the guest's that the kernel may write.
    pub const AWAY: u32 = 2;
    /// Stands at a safe point until no thread asks for quiet.
    pub const PARKED: u32 = 3;
    /// Has ended.
    pub const GONE: u32 = 4;
    /// A thread sleeps until the word changes.
    pub const AWAITED: u32 = 8;

    /// Whether a thread is at rest.
    pub fn is_quiet(word: u32) -> bool {
        matches!(word & !AWAITED, AWAY | PARKED | GONE)
    }
}

/// Where a thread is at rest, as far as that can be described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RestPlace {
    /// Somewhere in the host's code, or in a child's that has its memory (vfork).
    Unknown,
    /// At a safe point whose steps behind a tick are known: its tape can name it.
    SafePoint,
    /// In the call at hand, behind which its tape can say that it has waited there.
    Call,
    /// In front of an instruction that its tape cannot name.
    Instruction,
    /// In the call at hand, where it waits for memory, and goes on with the call at once.
    MemoryOfCall,
}

impl RestPlace {
    const ALL: [Self; 5] = [
        Self::Unknown,
        Self::SafePoint,
        Self::Call,
        Self::Instruction,
        Self::MemoryOfCall,
    ];

    /// Whether the thread's tape can name the place.
    fn is_named(self) -> bool {
        matches!(self, Self::SafePoint | Self::Call)
    }
}

/// The guest threads of a process.
pub struct Registry {
    count: AtomicU32,
    together: AtomicBool,
    /// The member that asks for quiet, or has it; 0: none.
    asker: AtomicU32,
    /// How often there has been quiet.
    times: AtomicU32,
    /// The number of members, which changes under their lock.
    enrolled: AtomicU32,
    members: Mutex<Enrolled>,
    /// Children in the memory of a thread that waits until they have left it (vfork).
    visitors: AtomicU32,
}

#[derive(Default)]
struct Enrolled {
    all: Vec<Arc<Member>>,
    last: u32,
    ended: EndedThreads,
}

/// One guest thread, or the vfork child in its place.
#[repr(align(64))]
pub struct Member {
    word: AtomicU32,
    id: u32,
    /// The kernel's ids of the process and thread that run in it.
    pid: AtomicU32,
    tid: AtomicU32,
    /// The last quiet that it knows of.
    seen: AtomicU32,
    /// The [`RestPlace`] at which it comes to rest next, or is.
    place: AtomicU8,
    /// The address of its task; 0: it has not said that.
    task: AtomicUsize,
}

impl Registry {
    /// The first thread is there. `together`: threads run at the same time.
    #[must_use]
    pub fn new(together: bool) -> Self {
        Self {
            count: AtomicU32::new(1),
            together: AtomicBool::new(together),
            asker: AtomicU32::new(0),
            times: AtomicU32::new(0),
            enrolled: AtomicU32::new(0),
            members: Mutex::default(),
            visitors: AtomicU32::new(0),
        }
    }

    /// A child comes into the memory of the process, in the place of the calling thread.
    pub fn visitor_comes(&self) {
        self.visitors.fetch_add(1, Ordering::AcqRel);
    }

    /// It has left, or was not made.
    pub fn visitor_goes(&self) {
        self.visitors.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether there is one.
    #[must_use]
    pub fn has_visitors(&self) -> bool {
        self.visitors.load(Ordering::Acquire) != 0
    }

    /// A thread is about to be made.
    pub fn begun(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// A thread has ended, or was not made. Says whether it was the last.
    pub fn ended(&self) -> bool {
        self.count.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Waits until all other members, whose threads have ended, have withdrawn.
    pub fn await_withdrawn(&self, me: &Member) {
        while let Some(other) = self.other(me) {
            other.await_gone();
        }
    }

    fn other(&self, me: &Member) -> Option<Arc<Member>> {
        let members = self.members();
        let found = members.all.iter().find(|m| m.id != me.id);
        found.map(Arc::clone)
    }

    /// How many threads there are, those included that are being made.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Whether there is one.
    #[must_use]
    pub fn single(&self) -> bool {
        self.count.load(Ordering::Acquire) == 1
    }

    /// Enrols a thread that is about to be made, or the first one; in the host's code. A thread
    /// that enrols another is itself enrolled and not at rest. `None`: threads do not run together.
    pub fn enrol(&self) -> Option<Arc<Member>> {
        if !self.together.load(Ordering::Acquire) {
            return None;
        }
        let mut members = self.members();
        members.last += 1;
        let member = Arc::new(Member {
            word: AtomicU32::new(word::HOST),
            id: members.last,
            pid: AtomicU32::new(0),
            tid: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            place: AtomicU8::new(RestPlace::Unknown as u8),
            task: AtomicUsize::new(0),
        });
        members.all.push(Arc::clone(&member));
        self.count_enrolled(&members);
        Some(member)
    }

    /// Takes out a thread that does nothing any more but leave the C library, or was not made.
    pub fn withdraw(&self, member: Arc<Member>, leaves: bool) {
        let mut members = self.members();
        members.all.retain(|m| !Arc::ptr_eq(m, &member));
        self.count_enrolled(&members);
        if leaves {
            members.ended.note();
        }
        member.set(word::GONE);
        // Its memory is freed before others may think the allocator at rest.
        drop(member);
    }

    /// The process has just been forked by this thread, which is the only one now.
    pub fn start_over(&self, member: Option<&Arc<Member>>) {
        self.count.store(1, Ordering::Release);
        self.visitors.store(0, Ordering::Release);
        let mut members = self.members();
        members
            .all
            .retain(|m| member.is_some_and(|member| Arc::ptr_eq(m, member)));
        members.ended = EndedThreads::default();
        self.count_enrolled(&members);
    }

    fn count_enrolled(&self, members: &Enrolled) {
        let n = members.all.len() as u32;
        self.enrolled.store(n, Ordering::Release);
    }

    /// Whether the calling member is the only one: then no other thread can ask for quiet, or wait for a word to
    /// change, before this one has enrolled another.
    fn is_alone(&self) -> bool {
        self.enrolled.load(Ordering::Acquire) == 1
    }

    /// Brings all others to rest, and keeps them there until the answer is dropped. The caller is at
    /// a place where it may park: `gives_way` does so, by [`Registry::give_way`], while others have their quiet.
    /// `None`: it says that the thread is a member no more.
    pub fn quiesce(&self, me: &Member, gives_way: &mut dyn FnMut() -> bool) -> Option<Quiet<'_>> {
        let (ok, fail) = (Ordering::SeqCst, Ordering::SeqCst);
        while self.asker.compare_exchange(0, me.id, ok, fail).is_err() {
            assert!(!self.is_quiet_for(me), "there is quiet already");
            if !gives_way() {
                return None;
            }
        }
        // Threads are enrolled under the lock, by threads that are not at rest: once a look under
        // the lock finds all at rest, none is added.
        while let Some(other) = self.restless(me) {
            other.await_change();
        }
        let me = me.id;
        Some(Quiet { registry: self, me })
    }

    /// Whether this thread has all others at rest.
    #[must_use]
    pub fn is_quiet_for(&self, me: &Member) -> bool {
        self.asker.load(Ordering::Relaxed) == me.id
    }

    /// While there is quiet: whether all others are at rest where their tapes can name the place.
    #[must_use]
    pub fn all_placed(&self, me: &Member) -> bool {
        let members = self.members();
        let mut others = members.all.iter().filter(|m| m.id != me.id);
        others.all(|m| m.place().is_named())
    }

    /// While there is quiet: the addresses of the tasks of all other threads, with the places where they rest; `None`: one has
    /// not said that yet. The tasks stay as they are until the quiet is over.
    #[must_use]
    pub fn all_at_rest(&self, me: &Member) -> Option<Vec<(usize, RestPlace)>> {
        let described = self.described_at_rest(me);
        (described.len() as u32 + 1 == self.count()).then_some(described)
    }

    /// The same of those that have said it.
    #[must_use]
    pub fn described_at_rest(&self, me: &Member) -> Vec<(usize, RestPlace)> {
        let members = self.members();
        let others = members.all.iter().filter(|m| m.id != me.id);
        let described = others.map(|m| (m.task.load(Ordering::Acquire), m.place()));
        described.filter(|(task, _)| *task != 0).collect()
    }

    /// While there is quiet: threads that go on from here on do not run together any more, and no thread asks for
    /// quiet again.
    pub fn part(&self) {
        self.together.store(false, Ordering::Release);
    }

    /// Waits until ended threads have left the C library too; only while there is quiet.
    pub fn await_ended(&self) {
        let ended = std::mem::take(&mut self.members().ended);
        ended.wait();
    }

    /// Parks while another thread asks for quiet or has it. A thread that asks after the return
    /// sees this one at work.
    pub fn give_way(&self, me: &Member) {
        while self.asked_by_another(me) {
            me.set(word::PARKED);
            loop {
                let asker = self.asker.load(Ordering::SeqCst);
                if asker == 0 {
                    break;
                }
                sys::futex_wait(&self.asker, asker, None);
            }
            me.set(word::HOST);
        }
    }

    /// Before translated code is looked up: until [`Registry::leave_guest`] the thread may be in it.
    /// Whether there has been quiet since the last time: the code cache may have changed. `None`: another thread asks
    /// for quiet; [`Registry::give_way`] comes first.
    pub fn enter_guest(&self, me: &Member) -> Option<bool> {
        if self.is_alone() {
            me.word.store(word::GUEST, Ordering::Release);
        } else {
            me.set(word::GUEST);
            if self.asked_by_another(me) {
                me.set(word::HOST);
                return None;
            }
        }
        let times = self.times.load(Ordering::Acquire);
        // Its own thread's alone: an atomic instruction here would cost as much as half of `set`.
        let is_new = me.seen.load(Ordering::Relaxed) != times;
        if is_new {
            me.seen.store(times, Ordering::Relaxed);
        }
        Some(is_new)
    }

    /// The thread has left translated code and knows no place in it.
    pub fn leave_guest(&self, me: &Member) {
        match self.is_alone() {
            true => me.word.store(word::HOST, Ordering::Release),
            false => me.set(word::HOST),
        }
    }

    /// The thread enters the kernel, to which nothing is lent.
    pub fn leave_for_kernel(&self, me: &Member) {
        me.set(word::AWAY);
    }

    /// It is back. It touches nothing before this is done.
    pub fn come_back(&self, me: &Member) {
        me.set(word::HOST);
        self.give_way(me);
    }

    /// The vfork child in the place of a thread has left, perhaps without a word.
    pub fn visitor_left(&self, me: &Member) {
        if self.is_quiet_for(me) {
            self.release();
        }
        me.set(word::HOST);
        self.give_way(me);
    }

    fn asked_by_another(&self, me: &Member) -> bool {
        let asker = self.asker.load(Ordering::SeqCst);
        asker != 0 && asker != me.id
    }

    fn restless(&self, me: &Member) -> Option<Arc<Member>> {
        let members = self.members();
        let mut others = members.all.iter().filter(|m| m.id != me.id);
        let found = others.find(|m| !word::is_quiet(m.word.load(Ordering::SeqCst)));
        found.map(Arc::clone)
    }

    fn release(&self) {
        self.times.fetch_add(1, Ordering::AcqRel);
        self.asker.store(0, Ordering::SeqCst);
        sys::futex_wake(&self.asker, u32::MAX >> 1);
    }

    fn members(&self) -> MutexGuard<'_, Enrolled> {
        self.members.lock().expect("no thread panics: panics abort")
    }
}

impl Member {
    /// The kernel's ids of the thread that runs in it from now on.
    pub fn runs_as(&self, pid: u32, tid: u32) {
        self.pid.store(pid, Ordering::Release);
        self.tid.store(tid, Ordering::Release);
    }

    /// The thread, whose task has this address, comes to rest there next.
    pub fn rests_at(&self, place: RestPlace, task: usize) {
        self.task.store(task, Ordering::Release);
        self.place.store(place as u8, Ordering::Release);
    }

    fn place(&self) -> RestPlace {
        let place = self.place.load(Ordering::Acquire);
        let known = RestPlace::ALL.get(usize::from(place));
        known.copied().unwrap_or(RestPlace::Unknown)
    }

    /// Changes the word, before anything that the thread looks at next.
    fn set(&self, word: u32) {
        let old = self.word.swap(word, Ordering::SeqCst);
        if old & word::AWAITED != 0 {
            sys::futex_wake(&self.word, u32::MAX >> 1);
        }
    }

    /// Waits until it has withdrawn.
    fn await_gone(&self) {
        loop {
            let old = self.word.fetch_or(word::AWAITED, Ordering::SeqCst);
            if old & !word::AWAITED == word::GONE {
                return;
            }
            sys::futex_wait(&self.word, old | word::AWAITED, None);
        }
    }

    /// Waits until the thread does something else, if it is not at rest. Calls it out of translated
    /// code.
    fn await_change(&self) {
        let old = self.word.fetch_or(word::AWAITED, Ordering::SeqCst);
        if word::is_quiet(old) {
            return;
        }
        if old & !word::AWAITED == word::GUEST {
            call_out(
                self.pid.load(Ordering::Acquire),
                self.tid.load(Ordering::Acquire),
            );
        }
        sys::futex_wait(&self.word, old | word::AWAITED, None);
    }
}

/// All other threads are at rest.
pub struct Quiet<'a> {
    registry: &'a Registry,
    me: u32,
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let asker = self.registry.asker.load(Ordering::Relaxed);
        assert!(asker == self.me, "another thread has quiet");
        self.registry.release();
    }
}
