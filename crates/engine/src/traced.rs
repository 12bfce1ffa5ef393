//! A thread's knowledge that another recorded process traces it (ptrace(2)), while it is recorded. A replay
//! knows of none: the tracer's changes are events of the thread's tape. Must know nothing of tasks.

/// How a traced thread goes on from its last stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GoesOn {
    /// To the next stop that comes by itself.
    #[default]
    Freely,
    /// To the next entry or exit of a call.
    ToCall,
    /// One instruction.
    Step,
}

/// The stop with which a traced thread begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// It is new.
    Born,
    /// Its process has become another program.
    Program,
}

/// A traced thread.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// Its place among all traced threads.
    pub slot: usize,
    /// How it goes on.
    pub goes_on: GoesOn,
    /// The stop that is due before anything else.
    pub begins: Option<Begins>,
    /// The call between whose entry and exit it is.
    pub call: Option<u32>,
    /// The event that its call has brought about: number and message.
    pub event: Option<(u32, u64)>,
    /// The slot for the thread or process that its call is making.
    pub birth: Option<usize>,
    /// The parent in whose memory it runs: its slot, and its registers as its stop shows them.
    pub parent: Option<(usize, Box<[u64; 27]>)>,
    /// Stops that it has made.
    pub stops: u64,
}

impl Traced {
    /// A thread that is traced from its birth on.
    #[must_use]
    pub fn born(slot: usize) -> Self {
        Self {
            slot,
            begins: Some(Begins::Born),
            ..Self::default()
        }
    }
}
