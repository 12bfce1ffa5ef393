//! The server's layer: a request is handled when its entry point has admitted it.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{HeaderValue, Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use crate::bytes::Malformed;
use crate::entry::{Admission, EntryPoint};
use crate::gate::Permit;
use crate::halt::Halt;
use crate::header::{Content, Header};
use crate::record::StreamId;
use crate::scoped::Scoped;
use crate::task::Task;
use crate::tower::bodies::{KeepRequests, OfRequests, Plain};
use crate::tower::wire::{HALT, IDENTITY, MARK, content, lines, put};

/// Leads requests of a service through entry points.
///
/// A request with a wrong header is refused with status 400, one that the replay does not admit with
/// 503; the header [`HALT_NAME`](crate::tower::HALT_NAME) says why.
#[derive(Clone)]
pub struct Receive<P = Plain> {
    which: Arc<Which>,
    bodies: P,
}

enum Which {
    One(EntryPoint),
    ByPath(HashMap<String, EntryPoint>),
}

impl Which {
    /// All entry points of a layer are of one session.
    fn is_replay(&self) -> bool {
        let one = match self {
            Self::One(entry) => Some(entry),
            Self::ByPath(entries) => entries.values().next(),
        };
        one.is_some_and(EntryPoint::is_replay)
    }
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
        // A service with a limit would give one of its places to a request that waits for its turn, and have
        // none for the one whose turn it is: a replay asks it when the turn has come.
        match self.which.is_replay() {
            true => Poll::Ready(Ok(())),
            false => self.inner.poll_ready(cx),
        }
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let entry = match &*self.which {
            Which::One(entry) => Some(entry),
            Which::ByPath(entries) => entries.get(request.uri().path()),
        };
        let Some(entry) = entry.filter(|entry| !entry.is_idle()) else {
            if self.which.is_replay() {
                let mut inner = self.inner.clone();
                let future = Box::pin(async move {
                    poll_fn(|cx| inner.poll_ready(cx)).await?;
                    inner.call(request).await
                });
                return ReceivingFuture::Waiting { future };
            }
            let future = self.inner.call(request);
            return ReceivingFuture::Passed { future };
        };
        let header = match header(&request) {
            Ok(header) => header,
            Err(malformed) => {
                let response = refuse(StatusCode::BAD_REQUEST, &malformed.to_string());
                return ReceivingFuture::refused(response);
            }
        };
        let content = Some(content(&request));
        let known = header.as_ref().and_then(|header| header.known);
        // A recording waits where one is admitted at a time only. A request that need not wait is not moved,
        // and takes no memory.
        if let Some(admission) = entry.receive_now(header.as_ref(), content) {
            return match handle(&mut self.inner, &self.bodies, admission, known, request) {
                Ok(future) => ReceivingFuture::Handled { future },
                Err(halt) => ReceivingFuture::refused(halted(&halt)),
            };
        }
        let entry = entry.clone();
        // The clone is not the one that is ready.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let bodies = self.bodies.clone();
        let is_replay = entry.is_replay();
        let future = Box::pin(async move {
            let admitted = entry.receive(header.as_ref(), content).await;
            if is_replay && admitted.is_ok() {
                poll_fn(|cx| inner.poll_ready(cx)).await?;
            }
            let handled = admitted
                .and_then(|admission| handle(&mut inner, &bodies, admission, known, request));
            match handled {
                Ok(handled) => handled.await,
                Err(halt) => Ok(halted(&halt)),
            }
        });
        ReceivingFuture::Waiting { future }
    }
}

/// Gives an admitted request to the service, as its task.
fn handle<S, P, B, R>(
    inner: &mut S,
    bodies: &P,
    admission: Admission,
    known: Option<u32>,
    request: Request<B>,
) -> Result<Scoped<Handling<S::Future>>, Halt>
where
    P: OfRequests<B>,
    S: Service<Request<B>, Response = Response<R>>,
{
    let sink = admission.sink(StreamId::Request).filter(|_| P::KEEPS);
    let request = bodies.keep(request, sink)?;
    let Admission { permit, task } = admission;
    let is_task = task.is_some();
    // Called inside of the task, so that operations of `call` itself belong to it.
    Ok(Scoped::begin(task, || Handling {
        future: inner.call(request),
        is_task,
        keeps: P::KEEPS,
        known,
        permit: Some(permit),
    }))
}

pin_project_lite::pin_project! {
    /// The service's work on an admitted request, inside of its task.
    pub struct Handling<F> {
        #[pin]
        future: F,
        is_task: bool,
        keeps: bool,
        known: Option<u32>,
        // Given back with the answer, or when the work is given up.
        permit: Option<Permit>,
    }
}

impl<F, R, E> Future for Handling<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Default,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let answer = ready!(this.future.poll(cx));
        let permit = this.permit.take();
        let task = Task::current().filter(|_| *this.is_task);
        let answer = match (answer, task) {
            (Ok(response), Some(task)) => Ok(answered(response, &task, *this.keeps, *this.known)),
            (answer, _) => answer,
        };
        drop(permit);
        Poll::Ready(answer)
    }
}

fn answered<R: Default>(
    mut response: Response<R>,
    task: &Task,
    keeps: bool,
    known: Option<u32>,
) -> Response<R> {
    if keeps {
        let status = Content::of(response.status().as_str().as_bytes());
        if let Err(halt) = task.answers(status) {
            return halted(&halt);
        }
    }
    // Most askers have it from the answer before.
    if let Some(mark) = task.mark().filter(|mark| known != Some(mark.digest())) {
        put(response.headers_mut(), MARK, &mark.rounded().to_text());
    }
    response
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
        /// Through one, at once.
        Handled {
            #[pin]
            future: Scoped<Handling<F>>,
        },
        /// Through one, which lets it wait.
        Waiting { future: Boxed<F::Output> },
        /// Not at all.
        Refused { response: Option<F::Output> },
    }
}

impl<F, R, E> ReceivingFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    fn refused(response: Response<R>) -> Self {
        let response = Some(Ok(response));
        Self::Refused { response }
    }
}

impl<F, R, E> Future for ReceivingFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Default,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.project() {
            Projection::Passed { future } => future.poll(cx),
            Projection::Handled { future } => future.poll(cx),
            Projection::Waiting { future } => future.as_mut().poll(cx),
            // Polled behind its end, as no future is.
            Projection::Refused { response } => response.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

fn header<B>(request: &Request<B>) -> Result<Option<Header>, Malformed> {
    let mut lines = lines(request.headers(), IDENTITY);
    match (lines.next(), lines.next()) {
        (None, _) => Ok(None),
        (Some(line), None) => Header::parse(line).map(Some),
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
    response.headers_mut().insert(HALT, value);
    response
}
