//! The sending side: a request gets its identity from the task that sends it.

use std::convert::Infallible;
use std::fmt::Display;
use std::future::Future;

use crate::halt::Halt;
use crate::header::{Content, Header};
use crate::id::RequestId;
use crate::primitives::task;
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

/// Sends a request: `send` gets the header that must go with it, `None` while off. A request that is
/// sent again, or twice at once, is sent by this function twice.
///
/// The answer is an operation of its own: a task that was cancelled before it came does not get it.
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
    let failed = |error: E| CallError::Failed(error.to_string());
    let Some(sender) = task("a request")? else {
        return send(None).await.map_err(failed);
    };
    let number = sender.begin_or_stay().await;
    if let Some(text) = sender.recorded_if_any(number, FAILED)? {
        sender.begin_or_stay().await;
        return Err(CallError::Failed(text));
    }
    let task = sender.id();
    let id = RequestId { task, number };
    let answer = send(Some(Header { id, content })).await.map_err(failed);
    if let Err(CallError::Failed(text)) = &answer {
        sender.note_failure(number, FAILED, text)?;
    }
    sender.begin_or_stay().await;
    answer
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
