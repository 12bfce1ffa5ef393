//! The outcome of the call at hand, as the tape has it.

use relive_trace::{InputRef, Syscall};

/// In place of the tick at which a child became another program, if it became none.
pub const NO_PROGRAM: u64 = u64::MAX;

/// The recorded outcome of the call at hand.
#[derive(Clone, Default)]
pub struct Answer {
    /// Its result.
    pub result: i64,
    /// Data of the hook.
    pub extra: Vec<u8>,
    /// Its number among the outputs of the tree.
    pub order: Option<u64>,
    /// The standard stream that it wrote to.
    pub stream: u8,
    writes: Vec<(u64, usize)>,
    bytes: Vec<u8>,
    /// References into the store of input.
    pub refs: Vec<InputRef>,
}

impl Answer {
    /// Replay: the index of the thread or process that the call made; the hooks of clone,
    /// fork and vfork put it first into `extra`.
    #[must_use]
    pub fn child_index(&self) -> u32 {
        child_index(&self.extra)
    }

    /// Replay: the tick at which the process that the call made in its caller's memory was becoming another program when it left
    /// that; the hook of vfork puts it behind the index. `None` also before format 1.11.
    #[must_use]
    pub fn child_became(&self) -> Option<u64> {
        self.number(4).filter(|&tick| tick != NO_PROGRAM)
    }

    /// Replay: the operations that the thread had made by then; the hook of a sketch puts them behind that tick.
    #[must_use]
    pub fn ops_behind_child(&self) -> Option<u64> {
        self.number(12)
    }

    /// A number in `extra`.
    fn number(&self, at: usize) -> Option<u64> {
        let bytes = self.extra.get(at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Copies the needed parts of an event.
    #[must_use]
    pub fn of(event: &Syscall<'_>) -> Self {
        let mut a = Self {
            result: event.result,
            extra: event.extra.to_vec(),
            order: event.order,
            stream: event.stream,
            ..Self::default()
        };
        for (addr, bytes) in event.writes.iter() {
            a.writes.push((addr, bytes.len()));
            a.bytes.extend_from_slice(bytes);
        }
        a.refs.extend(event.refs.iter());
        a
    }

    /// Whether memory is to be written.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty() || !self.refs.is_empty()
    }

    /// The bytes written, by address.
    pub fn writes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = &self.bytes[..];
        self.writes.iter().map(move |&(addr, n)| {
            let (head, tail) = rest.split_at(n);
            rest = tail;
            (addr, head)
        })
    }
}

/// The index of the thread or process that a call made, from the data of its hook.
#[must_use]
pub fn child_index(extra: &[u8]) -> u32 {
    let bytes = extra.first_chunk().copied().unwrap_or_default();
    u32::from_le_bytes(bytes)
}
