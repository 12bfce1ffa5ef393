//! The sending side: a request gets its identity from the task that sends it.

use std::future::Future;

use crate::halt::Halt;
use crate::header::{Content, Header};
use crate::id::RequestId;
use crate::primitives::task;

/// Sends a request: `send` gets the header that must go with it, `None` while off. A request that is
/// sent again, or twice at once, is sent by this function twice.
///
/// The answer is an operation of its own: a task that was cancelled before it came does not get it.
pub async fn call<F: Future>(
    content: Option<Content>,
    send: impl FnOnce(Option<Header>) -> F,
) -> Result<F::Output, Halt> {
    let Some(sender) = task("a request")? else {
        return Ok(send(None).await);
    };
    let number = sender.begin_or_stay().await;
    let task = sender.id();
    let id = RequestId { task, number };
    let answer = send(Some(Header { id, content })).await;
    sender.begin_or_stay().await;
    Ok(answer)
}
