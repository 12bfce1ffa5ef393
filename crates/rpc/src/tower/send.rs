//! The client's layer: a request carries the identity that its task gives it.

use std::fmt::Display;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::client::{CallError, Outgoing, depend, halted};
use crate::halt::Halt;
use crate::header::{HEADER_NAME, Header, Mark};
use crate::task::Task;
use crate::tower::bodies::{KeepResponses, OfResponses, Plain};
use crate::tower::wire::{HALT_NAME, MARK_NAME, content};

/// Gives requests of a client their identity. It belongs below whatever sends a request again, so that
/// each attempt has an identity of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Send;

impl<S> Layer<S> for Send {
    type Service = Sending<S>;

    fn layer(&self, inner: S) -> Sending<S> {
        let bodies = Plain;
        Sending { inner, bodies }
    }
}

/// As [`Send`], and keeps the responses where the session keeps payloads. In a replay of this process
/// alone nothing is sent, and nothing is connected.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendPayloads;

impl<S> Layer<S> for SendPayloads {
    type Service = Sending<S, KeepResponses>;

    fn layer(&self, inner: S) -> Sending<S, KeepResponses> {
        let bodies = KeepResponses;
        Sending { inner, bodies }
    }
}

/// A client whose requests carry identities.
#[derive(Debug, Clone)]
pub struct Sending<S, P = Plain> {
    inner: S,
    bodies: P,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + std::marker::Send>>;

fn failed(error: impl Display) -> CallError {
    CallError::Failed(error.to_string())
}

impl<S, P, B, R> Service<Request<B>> for Sending<S, P>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + std::marker::Send + 'static,
    S::Future: std::marker::Send,
    S::Error: Display,
    P: OfResponses<R>,
    B: std::marker::Send + 'static,
    R: std::marker::Send,
{
    type Response = Response<P::Body>;
    type Error = CallError;
    type Future = Boxed<Result<Response<P::Body>, CallError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        if P::KEEPS && Task::current().is_some_and(|task| task.alone().is_some()) {
            return Poll::Ready(Ok(()));
        }
        self.inner.poll_ready(cx).map_err(failed)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The clone is not the one that is ready.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let bodies = self.bodies.clone();
        Box::pin(async move {
            let Some(outgoing) = Outgoing::begin(Some(content(&request))).await? else {
                let response = inner.call(request).await.map_err(failed)?;
                return Ok(bodies.keep(response, None)?);
            };
            let mut sink = None;
            if P::KEEPS {
                if let Some(parts) = outgoing.recorded().await? {
                    return match bodies.recorded(parts) {
                        Some(response) => outgoing.end(Ok(response)).await,
                        None => Err(outgoing.cut().await.into()),
                    };
                }
                sink = outgoing.sink()?;
            }
            // The receiver's layer hashes by itself.
            let header = Header {
                content: None,
                ..outgoing.header()
            };
            let text = HeaderValue::from_maybe_shared(Bytes::from(header.to_text()));
            let mut text = text.expect("it is printable ASCII");
            // No two are the same: HTTP/2 would put each into its table, and throw out another for it.
            text.set_sensitive(true);
            request.headers_mut().insert(HEADER_NAME, text);
            // The client is kept until there is an answer: some end their connection with it.
            let response = inner.call(request).await.map_err(failed);
            drop(inner);
            let response = match response {
                Ok(mut response) => {
                    // It is ours alone, and of this one connection.
                    if let Some(mark) = response.headers_mut().remove(MARK_NAME)
                        && let Ok(mark) = Mark::parse(mark.as_bytes())
                    {
                        depend(mark);
                    }
                    Ok(bodies.keep(response, sink)?)
                }
                Err(error) => Err(error),
            };
            let response = outgoing.end(response).await?;
            match response.headers().get(HALT_NAME) {
                None => Ok(response),
                Some(reason) => {
                    let reason = String::from_utf8_lossy(reason.as_bytes()).into_owned();
                    match halted(reason).await {
                        Halt::Failed(reason) => Err(CallError::Failed(reason)),
                        halt => Err(halt.into()),
                    }
                }
            }
        })
    }
}
