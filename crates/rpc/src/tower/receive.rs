//! The server's layer: a request is handled when its entry point has admitted it.

use std::collections::HashMap;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use crate::bytes::Malformed;
use crate::entry::EntryPoint;
use crate::halt::Halt;
use crate::header::{Content, HEADER_NAME, Header};
use crate::record::StreamId;
use crate::tower::bodies::{KeepRequests, OfRequests, Plain};
use crate::tower::wire::{HALT_NAME, MARK_NAME, content};

/// Leads requests of a service through entry points.
///
/// A request with a wrong header is refused with status 400, one that the replay does not admit with
/// 503; the header [`HALT_NAME`] says why.
#[derive(Clone)]
pub struct Receive<P = Plain> {
    which: Arc<Which>,
    bodies: P,
}

enum Which {
    One(EntryPoint),
    ByPath(HashMap<String, EntryPoint>),
}

impl Receive {
    /// All requests come to one entry point.
    pub fn new(entry: EntryPoint) -> Self {
        Self::which(Which::One(entry))
    }

    /// Each path has an entry point, as each method of a gRPC service. Requests to other paths pass by,
    /// unrecorded: they must touch no state that the others see.
    pub fn by_path<P: Into<String>>(entries: impl IntoIterator<Item = (P, EntryPoint)>) -> Self {
        let entries = entries
            .into_iter()
            .map(|(path, entry)| (path.into(), entry));
        Self::which(Which::ByPath(entries.collect()))
    }

    fn which(which: Which) -> Self {
        Self {
            which: Arc::new(which),
            bodies: Plain,
        }
    }

    /// Keeps the requests where the session keeps payloads. `body` makes the service's body of ours:
    /// `axum::body::Body::new`, `tonic::body::Body::new`.
    pub fn payloads<W>(self, body: W) -> Receive<KeepRequests<W>> {
        Receive {
            which: self.which,
            bodies: KeepRequests(body),
        }
    }
}

impl<S, P: Clone> Layer<S> for Receive<P> {
    type Service = Receiving<S, P>;

    fn layer(&self, inner: S) -> Receiving<S, P> {
        Receiving {
            inner,
            which: self.which.clone(),
            bodies: self.bodies.clone(),
        }
    }
}

/// A service whose requests go through entry points.
#[derive(Clone)]
pub struct Receiving<S, P = Plain> {
    inner: S,
    which: Arc<Which>,
    bodies: P,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + std::marker::Send>>;

impl<S, P, B, R> Service<Request<B>> for Receiving<S, P>
where
    P: OfRequests<B>,
    S: Service<Request<B>, Response = Response<R>> + Clone + std::marker::Send + 'static,
    S::Future: std::marker::Send,
    B: std::marker::Send + 'static,
    R: Default,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ReceivingFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let entry = match &*self.which {
            Which::One(entry) => Some(entry.clone()),
            Which::ByPath(entries) => entries.get(request.uri().path()).cloned(),
        };
        // The clone is not the one that is ready.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let Some(entry) = entry.filter(|entry| !entry.is_idle()) else {
            let future = inner.call(request);
            return ReceivingFuture::Passed { future };
        };
        let bodies = self.bodies.clone();
        let future = Box::pin(async move {
            let header = match header(&request) {
                Ok(header) => header,
                Err(malformed) => {
                    return Ok(refuse(StatusCode::BAD_REQUEST, &malformed.to_string()));
                }
            };
            match entry
                .receive(header.as_ref(), Some(content(&request)))
                .await
            {
                // Called inside of the task, so that what `call` itself does belongs to it.
                Ok(admission) => {
                    let sink = admission.sink(StreamId::Request).filter(|_| P::KEEPS);
                    let request = match bodies.keep(request, sink) {
                        Ok(request) => request,
                        Err(halt) => return Ok(halted(&halt)),
                    };
                    let task = admission.task().cloned();
                    let handler = async move {
                        let mut response = inner.call(request).await?;
                        let Some(task) = task else {
                            return Ok(response);
                        };
                        if P::KEEPS {
                            let status = Content::of(response.status().as_str().as_bytes());
                            if let Err(halt) = task.answers(status) {
                                return Ok(halted(&halt));
                            }
                        }
                        if let Some(mark) = task.mark() {
                            let text = HeaderValue::from_str(&mark.to_text());
                            let text = text.expect("it is printable ASCII");
                            response.headers_mut().insert(MARK_NAME, text);
                        }
                        Ok(response)
                    };
                    admission.handle(handler).await
                }
                Err(halt) => Ok(halted(&halt)),
            }
        });
        ReceivingFuture::Led { future }
    }
}

pin_project_lite::pin_project! {
    /// The response of a [`Receiving`].
    #[project = Projection]
    pub enum ReceivingFuture<F: Future> {
        /// Past all entry points: the service's own future.
        Passed {
            #[pin]
            future: F,
        },
        /// Through one.
        Led { future: Boxed<F::Output> },
    }
}

impl<F: Future> Future for ReceivingFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.project() {
            Projection::Passed { future } => future.poll(cx),
            Projection::Led { future } => future.as_mut().poll(cx),
        }
    }
}

fn header<B>(request: &Request<B>) -> Result<Option<Header>, Malformed> {
    let mut values = request.headers().get_all(HEADER_NAME).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => Header::parse(value.as_bytes()).map(Some),
        (Some(_), Some(_)) => Err(Malformed("the header comes twice")),
    }
}

fn halted<R: Default>(halt: &Halt) -> Response<R> {
    refuse(StatusCode::SERVICE_UNAVAILABLE, &halt.to_string())
}

fn refuse<R: Default>(status: StatusCode, reason: &str) -> Response<R> {
    let mut response = Response::new(R::default());
    *response.status_mut() = status;
    let line = reason.lines().next().unwrap_or_default();
    let value = HeaderValue::from_str(line);
    let value = value.unwrap_or_else(|_| HeaderValue::from_static("refused"));
    response.headers_mut().insert(HALT_NAME, value);
    response
}
