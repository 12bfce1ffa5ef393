//! The client's layer: a request carries the identity that its task gives it.

use std::fmt::Display;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::client::{CallError, Outgoing, halted};
use crate::halt::Halt;
use crate::header::{Content, Header, Mark};
use crate::payload::Sink;
use crate::primitives::task;
use crate::recording;
use crate::task::Task;
use crate::tower::bodies::{KeepResponses, OfResponses, Plain};
use crate::tower::wire::{HALT, IDENTITY, MARK, REFUSALS, content, lines, put};

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
    R: std::marker::Send + 'static,
{
    type Response = Response<P::Body>;
    type Error = CallError;
    type Future = SendingFuture<S, P, B, Response<P::Body>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        if P::KEEPS && Task::current().is_some_and(|task| task.alone().is_some()) {
            return Poll::Ready(Ok(()));
        }
        self.inner.poll_ready(cx).map_err(failed)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let bodies = self.bodies.clone();
        if !recording::is_on() {
            let future = self.inner.call(request);
            return SendingFuture::Passed { future, bodies };
        }
        // A request belongs to the task that waits for its answer, which may be another one than calls: it
        // begins with the first poll. The clone is not the one that is ready.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let begun = Some((inner, request, bodies));
        SendingFuture::Begun { begun }
    }
}

pin_project_lite::pin_project! {
    /// The response of a [`Sending`].
    #[project = Projection]
    pub enum SendingFuture<S, P, B, T>
    where
        S: Service<Request<B>>,
    {
        /// Off.
        Passed {
            #[pin]
            future: S::Future,
            bodies: P,
        },
        /// The next poll says which task sends.
        Begun {
            begun: Option<(S, Request<B>, P)>,
        },
        /// Of a recording, which waits for the answer alone.
        Recorded {
            #[pin]
            future: S::Future,
            sent: Option<Sent<S, P>>,
        },
        /// Of a replay, which may wait for its recording.
        Replayed {
            future: Boxed<Result<T, CallError>>,
        },
    }
}

/// A request of a recording, on its way.
pub struct Sent<S, P> {
    outgoing: Outgoing,
    sink: Option<Sink>,
    bodies: P,
    // Kept until there is an answer: some end their connection with it.
    _inner: S,
}

impl<S, P, B, R> Future for SendingFuture<S, P, B, Response<P::Body>>
where
    S: Service<Request<B>, Response = Response<R>> + std::marker::Send + 'static,
    S::Future: std::marker::Send,
    S::Error: Display,
    P: OfResponses<R>,
    B: std::marker::Send + 'static,
    R: std::marker::Send + 'static,
{
    type Output = Result<Response<P::Body>, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = match self.as_mut().project() {
                Projection::Passed { future, bodies } => {
                    let response = ready!(future.poll(cx)).map_err(failed)?;
                    return Poll::Ready(Ok(bodies.keep(response, None)?));
                }
                Projection::Begun { begun } => {
                    // Polled behind its end, as no future is.
                    let Some((inner, request, bodies)) = begun.take() else {
                        return Poll::Pending;
                    };
                    begin(inner, request, bodies)?
                }
                Projection::Recorded { future, sent } => {
                    let response = ready!(future.poll(cx)).map_err(failed);
                    return match sent.take() {
                        Some(sent) => Poll::Ready(sent.answered(response)),
                        None => Poll::Pending,
                    };
                }
                Projection::Replayed { future } => return future.as_mut().poll(cx),
            };
            self.set(next);
        }
    }
}

type Begun<S, P, B, R> = SendingFuture<S, P, B, Response<<P as OfResponses<R>>::Body>>;

/// The current task sends a request.
fn begin<S, P, B, R>(
    mut inner: S,
    mut request: Request<B>,
    bodies: P,
) -> Result<Begun<S, P, B, R>, CallError>
where
    S: Service<Request<B>, Response = Response<R>> + std::marker::Send + 'static,
    S::Future: std::marker::Send,
    S::Error: Display,
    P: OfResponses<R>,
    B: std::marker::Send + 'static,
    R: std::marker::Send + 'static,
{
    let Some(task) = task("a request")? else {
        let future = inner.call(request);
        return Ok(SendingFuture::Passed { future, bodies });
    };
    // Methods and targets are compared by the receiver, but where there is none.
    let content = P::KEEPS.then(|| content(&request));
    if task.is_replay() {
        let future = Box::pin(replay(inner, request, bodies, content));
        return Ok(SendingFuture::Replayed { future });
    }
    let outgoing = Outgoing::begin_now(task, content)?;
    let sink = match P::KEEPS {
        true => outgoing.sink()?,
        false => None,
    };
    identify(&mut request, &outgoing);
    let future = inner.call(request);
    let sent = Some(Sent {
        outgoing,
        sink,
        bodies,
        _inner: inner,
    });
    Ok(SendingFuture::Recorded { future, sent })
}

impl<S, P> Sent<S, P> {
    fn answered<R>(
        self,
        response: Result<Response<R>, CallError>,
    ) -> Result<Response<P::Body>, CallError>
    where
        P: OfResponses<R>,
    {
        let response = response.and_then(|mut response| {
            if let Some(mark) = mark(&mut response) {
                self.outgoing.depends(mark);
            }
            Ok(self.bodies.keep(response, self.sink)?)
        });
        let response = self.outgoing.end_now(response)?;
        match reason(&response) {
            None => Ok(response),
            Some(reason) => Err(CallError::Failed(reason)),
        }
    }
}

async fn replay<S, P, B, R>(
    mut inner: S,
    mut request: Request<B>,
    bodies: P,
    content: Option<Content>,
) -> Result<Response<P::Body>, CallError>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Display,
    P: OfResponses<R>,
{
    let Some(outgoing) = Outgoing::begin(content).await? else {
        let response = inner.call(request).await.map_err(failed)?;
        return Ok(bodies.keep(response, None)?);
    };
    if P::KEEPS
        && let Some(parts) = outgoing.recorded().await?
    {
        return match bodies.recorded(parts) {
            Some(response) => outgoing.end(Ok(response)).await,
            None => Err(outgoing.cut().await.into()),
        };
    }
    identify(&mut request, &outgoing);
    let response = inner.call(request).await.map_err(failed);
    drop(inner);
    let response = match response {
        Ok(mut response) => {
            mark(&mut response);
            Ok(bodies.keep(response, None)?)
        }
        Err(error) => Err(error),
    };
    let response = outgoing.end(response).await?;
    match reason(&response) {
        None => Ok(response),
        Some(reason) => match halted(reason).await {
            Halt::Failed(reason) => Err(CallError::Failed(reason)),
            halt => Err(halt.into()),
        },
    }
}

fn identify<B>(request: &mut Request<B>, outgoing: &Outgoing) {
    // The receiver's layer hashes by itself.
    let header = Header {
        content: None,
        ..outgoing.header()
    };
    put(request.headers_mut(), IDENTITY, &header.to_text());
}

/// How far the answering process's recording is. It is ours alone, and of this one connection.
fn mark<R>(response: &mut Response<R>) -> Option<Mark> {
    let mark = lines(response.headers(), MARK).next().map(Mark::parse)?;
    response.headers_mut().remove(MARK);
    mark.ok()
}

/// Why the other side gives no answer, where it says so.
fn reason<R>(response: &Response<R>) -> Option<String> {
    // A look for a header costs more than one at the status.
    if !REFUSALS.contains(&response.status()) {
        return None;
    }
    let reason = response.headers().get(HALT)?;
    Some(String::from_utf8_lossy(reason.as_bytes()).into_owned())
}
