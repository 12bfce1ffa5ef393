//! The interface of a policy, and the bounds of its answers.

/// Longest slice of any policy, in ticks.
pub const SLICE_MAX: u64 = 1 << 22;

/// Most guest instructions that a policy lets pass after a slice's last tick.
pub const STEPS_MAX: u32 = 1 << 12;

/// Decides which thread runs, and how long. One instance serves all threads that share a baton.
pub trait Policy: Send {
    /// Ticks until the next preemption, while others wait or, `alone`, sleep: 1 to [`SLICE_MAX`].
    fn slice(&mut self, alone: bool) -> u64;

    /// Extra guest instructions after that tick, so that a switch can fall between any two
    /// instructions: 0 to [`STEPS_MAX`].
    fn steps(&mut self) -> u32;

    /// The thread that gets the baton next: an index into `waiting`, the threads that want it in
    /// the order in which they began to wait.
    ///
    /// # Panics
    /// When `waiting` is empty.
    fn choose(&mut self, waiting: &[u32]) -> usize;

    /// At the end of a slice: whether this thread goes on in spite of those that wait.
    fn keeps(&mut self, _thread: u32, _waiting: &[u32]) -> bool {
        false
    }

    /// The holder has woken others, which will wait for the baton: its slice ends in so many ticks. `None`: when it would have ended.
    fn woke(&mut self) -> Option<u64> {
        None
    }

    /// This thread gave way because it only spun: it waits for another one.
    fn spinning(&mut self, _thread: u32) {}

    /// Whether each instruction is to be looked at now, while others wait or, `alone`, sleep.
    fn samples(&self, _alone: bool) -> bool {
        false
    }

    /// An instruction of this thread is looked at: whether one of `waiting` goes first.
    fn look(&mut self, _thread: u32, _waiting: &[u32]) -> bool {
        false
    }

    /// This thread is about to make an access to memory that threads share: whether one of
    /// `waiting` goes first.
    fn give_way(&mut self, _thread: u32, _access: SharedAccess, _waiting: &[u32]) -> bool {
        false
    }

    /// Whether it would give way if another one could go on that sleeps for a time now.
    fn awaits_others(&self, _thread: u32, _access: SharedAccess, _waiting: &[u32]) -> bool {
        false
    }

    /// This thread gave way, and has got the baton as no other could go on: whether it still waits for something that one may do
    /// that sleeps for a time now.
    fn gave_up(&self, _thread: u32) -> bool {
        false
    }

    /// Whether it gives way once more, as one of `waiting` can go on now.
    fn gives_way_again(&mut self, _thread: u32, _waiting: &[u32]) -> bool {
        false
    }

    /// It makes the access now.
    fn makes(&mut self, _thread: u32, _access: SharedAccess) {}
}

/// An access to memory that threads share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedAccess {
    /// Address of the instruction.
    pub site: u64,
    /// Number of the word: an address without its last three bits; or one that is no memory's
    /// ([`SharedAccess::BESIDE_MEMORY`]).
    pub word: u64,
    /// Whether it may write.
    pub writes: bool,
}

impl SharedAccess {
    /// From here on words are no memory's, but something else that threads share: calls access them.
    pub const BESIDE_MEMORY: u64 = 1 << 60;
    /// From here on the order of the call that accesses such a word matters against accesses to memory, too.
    pub const ANY_MEMORY: u64 = 1 << 61;

    /// Whether it is an access of an order of this word. 0: of any word.
    #[must_use]
    pub fn is_of(self, word: u64) -> bool {
        let is_memory = self.word < Self::BESIDE_MEMORY;
        word == 0 || word == self.word || word >= Self::ANY_MEMORY && is_memory
    }

    /// Whether the order of both matters.
    #[must_use]
    pub fn conflicts(self, other: Self) -> bool {
        self.word == other.word && (self.writes || other.writes)
    }
}
