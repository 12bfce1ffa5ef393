//! Payloads: the bytes that come to a task, as its request or as an answer. They are kept on option, so
//! that a process can be replayed without its peers.
//!
//! A payload is a sequence of parts, noted as they come: a stream is not held back for its end. **A
//! replay gives the parts that were noted, one by one, and nothing behind them.**

use std::sync::Arc;
#[cfg(feature = "tower")]
use std::task::Waker;

use crate::halt::{Halt, Kind};
use crate::header::Content;
use crate::id::Path;
use crate::record::{Member, StreamId, VALUE_MAX};
use crate::shared::Shared;
use crate::tape::Lane;
use crate::task::{Side, Task};

/// The kind of a part; its first byte on the tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartKind {
    /// A task sends: the hash of the content, which a replay compares.
    Sent = 0,
    /// The head before the bytes, as the transport writes it.
    Head = 1,
    Data = 2,
    /// The trailers after them.
    Trailers = 3,
    End = 4,
    /// It ended by this failure.
    Failed = 5,
}

impl PartKind {
    fn of(byte: u8) -> Option<Self> {
        use PartKind::{Data, End, Failed, Head, Sent, Trailers};
        let all = [Sent, Head, Data, Trailers, End, Failed];
        all.get(usize::from(byte)).copied()
    }
}

/// Takes the parts of a payload down; does nothing where none are kept.
#[derive(Clone)]
pub struct Sink {
    task: Task,
    stream: StreamId,
}

impl Sink {
    /// `None`: payloads are not kept.
    pub(crate) fn new(task: &Task, stream: StreamId) -> Option<Self> {
        let kept = matches!(task.side(), Side::Record(notes) if notes.lane.keeps_payloads());
        kept.then(|| Self {
            task: task.clone(),
            stream,
        })
    }

    /// Notes a part; data in as many as it takes.
    pub(crate) fn note(&self, kind: PartKind, bytes: &[u8]) -> Result<(), Halt> {
        let Side::Record(notes) = self.task.side() else {
            return Ok(());
        };
        if kind != PartKind::Data && bytes.len() >= VALUE_MAX {
            return Err(Halt::TooMuch("the head of a payload is longer than 1 MiB"));
        }
        let mut part = Vec::with_capacity(1 + bytes.len().min(VALUE_MAX - 1));
        let mut rest = bytes;
        loop {
            let (piece, behind) = rest.split_at(rest.len().min(VALUE_MAX - 1));
            part.clear();
            part.push(kind as u8);
            part.extend_from_slice(piece);
            notes.lane.payload(self.task.member(), self.stream, &part);
            rest = behind;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Notes bytes that are all there.
    pub(crate) fn note_whole(&self, bytes: &[u8]) -> Result<(), Halt> {
        self.note(PartKind::Head, &[])?;
        self.note(PartKind::Data, bytes)?;
        self.note(PartKind::End, &[])
    }

    /// Notes the content that is sent.
    pub(crate) fn note_sent(&self, content: Option<Content>) -> Result<(), Halt> {
        let hash = content.map(|content| content.0.to_le_bytes());
        self.note(PartKind::Sent, hash.as_ref().map_or(&[], |hash| hash))
    }
}

/// The recorded parts of a payload, one after the other.
#[derive(Clone)]
pub struct Parts {
    lane: Arc<Lane>,
    shared: Arc<Shared>,
    key: (Member, StreamId),
    next: usize,
}

impl Parts {
    pub(crate) fn new(
        lane: &Arc<Lane>,
        shared: &Arc<Shared>,
        task: Member,
        stream: StreamId,
    ) -> Self {
        Self {
            lane: lane.clone(),
            shared: shared.clone(),
            key: (task, stream),
            next: 0,
        }
    }

    /// Of a request that the lane received at this place; `None` if none was kept.
    pub(crate) fn of_request(lane: &Arc<Lane>, shared: &Arc<Shared>, place: u64) -> Option<Self> {
        let path = Path::default();
        let parts = Self::new(lane, shared, Member { place, path }, StreamId::Request);
        let kept = lane.payloads.contains_key(&parts.key);
        kept.then_some(parts)
    }

    /// Whether its task answered.
    pub(crate) fn is_answered(&self) -> bool {
        let key = (self.key.0, StreamId::Given);
        self.lane.payloads.contains_key(&key)
    }

    pub(crate) fn next(&mut self) -> Option<(PartKind, &[u8])> {
        let part = self.lane.payloads.get(&self.key)?.get(self.next)?;
        self.next += 1;
        self.shared.step();
        let (kind, bytes) = part.split_first()?;
        Some((PartKind::of(*kind)?, bytes))
    }

    /// Why there will be no more; keeps a waker until then.
    #[cfg(feature = "tower")]
    pub(crate) fn poll_end(&self, waker: &Waker) -> Option<Halt> {
        self.shared.poll_end(waker)
    }

    /// All bytes of the data; `None` if the end lacks.
    pub(crate) fn whole(mut self) -> Option<Vec<u8>> {
        let mut whole = Vec::new();
        loop {
            match self.next()? {
                (PartKind::End, _) => return Some(whole),
                (PartKind::Data, bytes) => whole.extend_from_slice(bytes),
                (PartKind::Failed, _) => return None,
                _ => {}
            }
        }
    }
}

impl Task {
    /// The recording that answers for all others, where this process is replayed alone.
    pub(crate) fn alone(&self) -> Option<(&Arc<Lane>, &Arc<Shared>)> {
        match self.side() {
            Side::Replay(lane, shared) if shared.alone => Some((lane, shared)),
            Side::Record(_) | Side::Replay(..) => None,
        }
    }

    /// It answers its request with this content: noted with payloads, and compared where it was noted.
    pub(crate) fn answers(&self, content: Content) -> Result<(), Halt> {
        if let Some(sink) = Sink::new(self, StreamId::Given) {
            return sink.note_sent(Some(content));
        }
        let Side::Replay(lane, shared) = self.side() else {
            return Ok(());
        };
        // An end in the middle is no answer of the recording's.
        if shared.failure().is_some() || shared.cut_short.get().is_some() {
            return Ok(());
        }
        let mut parts = Parts::new(lane, shared, self.member(), StreamId::Given);
        match parts.next() {
            Some((PartKind::Sent, hash)) if *hash != content.0.to_le_bytes() => {
                let given = hash.try_into().ok().map(u64::from_le_bytes);
                let expected = format!("an answer with {}", Content::show(given.map(Content)));
                let actual = Content::show(Some(content));
                Err(self.diverges(Kind::Content, self.operations(), expected, &actual))
            }
            _ => Ok(()),
        }
    }

    /// The recorded answer to a request with this content; `None` where the peer itself answers. A request
    /// that the recording has no answer to waits for its end.
    pub(crate) async fn recorded_answer(
        &self,
        number: u64,
        content: Option<Content>,
    ) -> Result<Option<Parts>, Halt> {
        let Some((lane, shared)) = self.alone() else {
            return Ok(None);
        };
        let stream = StreamId::Answer(number);
        let mut parts = Parts::new(lane, shared, self.member(), stream);
        let sent = match parts.next() {
            Some((PartKind::Sent, hash)) => hash.try_into().ok().map(u64::from_le_bytes),
            _ => return Err(self.until_end(std::future::pending::<()>()).await),
        };
        let sent = sent.map(Content);
        if sent != content {
            let (expected, actual) = (Content::show(sent), Content::show(content));
            return Err(self.diverges(Kind::Content, number, expected, &actual));
        }
        Ok(Some(parts))
    }
}
