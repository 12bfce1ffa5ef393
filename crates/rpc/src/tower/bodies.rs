//! Whether a layer keeps the bodies of requests and responses: two ways, chosen by type, so that a layer
//! that keeps none asks nothing of them.

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;

use crate::halt::Halt;
use crate::payload::{PartKind, Parts, Sink};
use crate::tower::payload::{BoxError, Payload, request_head, response, response_head};

/// Bodies are left alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

/// Bodies of requests are kept; the function makes the service's body of ours.
#[derive(Debug, Clone, Copy)]
pub struct KeepRequests<W>(pub(super) W);

/// Bodies of responses are kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeepResponses;

/// The way of a server's layer with the bodies of requests.
pub trait OfRequests<B>: Clone + Send + Sync + 'static {
    /// Whether payloads are kept where the session keeps them.
    #[doc(hidden)]
    const KEEPS: bool;

    #[doc(hidden)]
    fn keep(&self, request: Request<B>, sink: Option<Sink>) -> Result<Request<B>, Halt>;
}

impl<B> OfRequests<B> for Plain {
    const KEEPS: bool = false;

    fn keep(&self, request: Request<B>, _: Option<Sink>) -> Result<Request<B>, Halt> {
        Ok(request)
    }
}

impl<B, W> OfRequests<B> for KeepRequests<W>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    W: Fn(Payload) -> B + Clone + Send + Sync + 'static,
{
    const KEEPS: bool = true;

    fn keep(&self, request: Request<B>, sink: Option<Sink>) -> Result<Request<B>, Halt> {
        let Some(sink) = sink else {
            return Ok(request);
        };
        sink.note(PartKind::Head, &request_head(&request))?;
        Ok(request.map(|body| (self.0)(Payload::live(body, Some(sink)))))
    }
}

/// The way of a client's layer with the bodies of responses.
pub trait OfResponses<R>: Clone + Send + Sync + 'static {
    /// The body that the client gets.
    type Body: Send;

    /// Whether payloads are kept where the session keeps them.
    #[doc(hidden)]
    const KEEPS: bool;

    #[doc(hidden)]
    fn keep(&self, response: Response<R>, sink: Option<Sink>)
    -> Result<Response<Self::Body>, Halt>;

    /// `None` if the recording does not have it.
    #[doc(hidden)]
    fn recorded(&self, parts: Parts) -> Option<Response<Self::Body>>;
}

impl<R: Send> OfResponses<R> for Plain {
    type Body = R;
    const KEEPS: bool = false;

    fn keep(&self, response: Response<R>, _: Option<Sink>) -> Result<Response<R>, Halt> {
        Ok(response)
    }

    fn recorded(&self, _: Parts) -> Option<Response<R>> {
        None
    }
}

impl<R> OfResponses<R> for KeepResponses
where
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Body = Payload;
    const KEEPS: bool = true;

    fn keep(&self, response: Response<R>, sink: Option<Sink>) -> Result<Response<Payload>, Halt> {
        if let Some(sink) = &sink {
            sink.note(PartKind::Head, &response_head(&response))?;
        }
        Ok(response.map(|body| Payload::live(body, sink)))
    }

    fn recorded(&self, parts: Parts) -> Option<Response<Payload>> {
        response(parts)
    }
}
