//! The sending side: a request gets its identity from the task that sends it.

use std::convert::Infallible;
use std::fmt::Display;
use std::future::Future;

use crate::halt::Halt;
use crate::header::{Content, Header, Mark};
use crate::id::RequestId;
use crate::payload::{Parts, Sink};
use crate::primitives::task;
use crate::record::StreamId;
use crate::task::Task;

/// How a request whose transport failed is noted.
const FAILED: &str = "transport";

/// Why a request has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// The replay says so, or there is no task.
    #[error(transparent)]
    Halt(#[from] Halt),
    /// The transport failed; its own words, while recording and replaying alike.
    #[error("{0}")]
    Failed(String),
}

/// A request on its way. The answer is an operation of its own: a task that was cancelled before it came
/// does not get it.
pub(crate) struct Outgoing {
    task: Task,
    number: u64,
    content: Option<Content>,
}

impl Outgoing {
    /// The current task's next request; `None` while off. One that failed in the recording is not sent.
    pub(crate) async fn begin(content: Option<Content>) -> Result<Option<Self>, CallError> {
        let Some(task) = task("a request")? else {
            return Ok(None);
        };
        let number = task.begin_or_stay().await;
        if let Some(text) = task.recorded_if_any(number, FAILED)? {
            task.begin_or_stay().await;
            return Err(CallError::Failed(text));
        }
        Ok(Some(Self {
            task,
            number,
            content,
        }))
    }

    /// The next request of a task that records: it waits for nothing.
    #[cfg(feature = "tower")]
    pub(crate) fn begin_now(task: Task, content: Option<Content>) -> Result<Self, CallError> {
        let number = task.begin()?;
        Ok(Self {
            task,
            number,
            content,
        })
    }

    /// The task's operations after the answer depend on the records of its giver.
    #[cfg(feature = "tower")]
    pub(crate) fn depends(&self, mark: Mark) {
        self.task.depends(mark);
    }

    pub(crate) fn header(&self) -> Header {
        let (task, number) = (self.task.id(), self.number);
        Header {
            id: RequestId { task, number },
            content: self.content,
            epoch: self.task.mark().map_or(0, |mark| mark.epoch),
            known: self.task.known(),
        }
    }

    /// Where the bytes of its answer go; `None` if they are not kept.
    pub(crate) fn sink(&self) -> Result<Option<Sink>, Halt> {
        let sink = Sink::new(&self.task, StreamId::Answer(self.number));
        if let Some(sink) = &sink {
            sink.note_sent(self.content)?;
        }
        Ok(sink)
    }

    /// Its recorded answer, where no peer answers.
    pub(crate) async fn recorded(&self) -> Result<Option<Parts>, Halt> {
        self.task.recorded_answer(self.number, self.content).await
    }

    /// The task takes the answer, or the failure.
    pub(crate) async fn end<T>(&self, answer: Result<T, CallError>) -> Result<T, CallError> {
        self.note(&answer)?;
        self.task.begin_or_stay().await;
        answer
    }

    /// The same of a task that records.
    #[cfg(feature = "tower")]
    pub(crate) fn end_now<T>(&self, answer: Result<T, CallError>) -> Result<T, CallError> {
        self.note(&answer)?;
        self.task.begin()?;
        answer
    }

    fn note<T>(&self, answer: &Result<T, CallError>) -> Result<(), Halt> {
        match answer {
            Err(CallError::Failed(text)) => self.task.note_failure(self.number, FAILED, text),
            _ => Ok(()),
        }
    }

    /// The recorded part of the answer ends too early: the rest came behind the recording's end.
    pub(crate) async fn cut(&self) -> Halt {
        self.task.until_end(std::future::pending::<()>()).await
    }
}

fn failed(error: impl Display) -> CallError {
    CallError::Failed(error.to_string())
}

/// Sends a request: `send` gets the header that must go with it, `None` while off. A request that is
/// sent again, or twice at once, is sent by this function twice.
pub async fn call<F: Future>(
    content: Option<Content>,
    send: impl FnOnce(Option<Header>) -> F,
) -> Result<F::Output, Halt> {
    let sent = |header| {
        let sent = send(header);
        async { Ok::<_, Infallible>(sent.await) }
    };
    try_call(content, sent).await.map_err(|error| match error {
        CallError::Halt(halt) => halt,
        CallError::Failed(text) => Halt::Failed(text),
    })
}

/// As [`call`], for a transport that may fail. A failure is noted; a replay does not send then, and
/// fails in the same words.
pub async fn try_call<T, E: Display, F: Future<Output = Result<T, E>>>(
    content: Option<Content>,
    send: impl FnOnce(Option<Header>) -> F,
) -> Result<T, CallError> {
    match Outgoing::begin(content).await? {
        None => send(None).await.map_err(failed),
        Some(request) => {
            let answer = send(Some(request.header())).await.map_err(failed);
            request.end(answer).await
        }
    }
}

/// As [`try_call`], for a request and an answer that are bytes, which a recording with
/// [`Keep::Payloads`](crate::Keep::Payloads) keeps. A replay of this process alone does not send: the
/// answer is the recorded one.
pub async fn exchange<E: Display, F: Future<Output = Result<Vec<u8>, E>>>(
    bytes: &[u8],
    send: impl FnOnce(Option<Header>) -> F,
) -> Result<Vec<u8>, CallError> {
    let Some(request) = Outgoing::begin(Some(Content::of(bytes))).await? else {
        return send(None).await.map_err(failed);
    };
    if let Some(parts) = request.recorded().await? {
        return match parts.whole() {
            Some(bytes) => request.end(Ok(bytes)).await,
            None => Err(request.cut().await.into()),
        };
    }
    let sink = request.sink()?;
    let answer = send(Some(request.header())).await;
    if let (Some(sink), Ok(bytes)) = (&sink, &answer) {
        sink.note_whole(bytes)?;
    }
    request.end(answer.map_err(failed)).await
}

/// For transports: the answer that the current task gets depends on its giver's records up to this
/// mark. To be called before the task goes on with the answer.
pub fn depend(mark: Mark) {
    if let Some(task) = Task::current() {
        task.depends(mark);
    }
}

/// For transports: an answer says that the replay of its process has ended, which no answer of the
/// recording said. The task that gets it does not go on until the replay of its own process ends, lest
/// requests be admitted on a state that never was.
pub async fn halted(reason: String) -> Halt {
    match Task::current() {
        Some(task) if task.is_replay() => task.until_end(std::future::pending::<()>()).await,
        _ => Halt::Failed(reason),
    }
}
