//! Bodies whose frames are kept as they pass, or come from a tape; and their heads.
//!
//! No body is held back for its end. **A recorded body ends where its recording ends: with its end, its
//! failure, or the end of the replay.**

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Version};
use http_body::{Body, Frame};
use serde::{Deserialize, Serialize};

use crate::payload::{PartKind, Parts, Sink};

/// A failure of any body.
pub type BoxError = Box<dyn Error + Send + Sync>;

type Boxed = Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>;

/// A body of a request or a response, of which payloads may be kept.
pub struct Payload(Source);

enum Source {
    Live { body: Boxed, sink: Option<Sink> },
    Recorded(Parts),
    Ended,
}

impl Payload {
    pub(super) fn live<B>(body: B, sink: Option<Sink>) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let body: Boxed = Box::pin(Converted { body });
        let mut payload = Self(Source::Live { body, sink });
        payload.note_end();
        payload
    }

    pub(super) fn recorded(parts: Parts) -> Self {
        Self(Source::Recorded(parts))
    }

    /// Some readers never ask for the end of a body that says that it has ended.
    fn note_end(&mut self) {
        if let Source::Live { body, sink } = &mut self.0
            && body.is_end_stream()
            && let Some(sink) = sink.take()
        {
            note(&sink, PartKind::End, &[]);
        }
    }
}

/// Only heads have a longest size.
fn note(sink: &Sink, kind: PartKind, bytes: &[u8]) {
    if let Err(halt) = sink.note(kind, bytes) {
        let _ = sink.note(PartKind::Failed, halt.to_string().as_bytes());
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Source::Ended => Poll::Ready(None),
            Source::Recorded(parts) => {
                let frame = poll_recorded(parts, cx);
                if let Poll::Ready(None | Some(Err(_))) = frame {
                    self.0 = Source::Ended;
                }
                frame
            }
            Source::Live { body, sink } => {
                let frame = std::task::ready!(body.as_mut().poll_frame(cx));
                if let Some(of) = sink {
                    match &frame {
                        None => note(of, PartKind::End, &[]),
                        Some(Err(error)) => {
                            note(of, PartKind::Failed, error.to_string().as_bytes());
                        }
                        Some(Ok(frame)) => {
                            if let Some(data) = frame.data_ref() {
                                note(of, PartKind::Data, data);
                            }
                            if let Some(trailers) = frame.trailers_ref() {
                                note(of, PartKind::Trailers, &write(&fields(trailers)));
                            }
                        }
                    }
                    if !matches!(frame, Some(Ok(_))) {
                        *sink = None;
                    }
                }
                self.note_end();
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Live { body, .. } => body.is_end_stream(),
            Source::Recorded(_) => false,
            Source::Ended => true,
        }
    }
}

fn poll_recorded(
    parts: &mut Parts,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
    Poll::Ready(match parts.next() {
        Some((PartKind::Data, bytes)) => Some(Ok(Frame::data(Bytes::copy_from_slice(bytes)))),
        Some((PartKind::Trailers, bytes)) => {
            let trailers = read(bytes).and_then(|fields: Fields| map(&fields));
            let trailers = trailers.ok_or("the recorded trailers are damaged");
            Some(trailers.map(Frame::trailers).map_err(Into::into))
        }
        Some((PartKind::End, _)) => None,
        Some((PartKind::Failed, text)) => Some(Err(String::from_utf8_lossy(text).into())),
        Some((PartKind::Sent | PartKind::Head, _)) => {
            Some(Err("the recorded body is damaged".into()))
        }
        None => match parts.poll_end(cx.waker()) {
            None => return Poll::Pending,
            Some(halt) => Some(Err(halt.into())),
        },
    })
}

pin_project_lite::pin_project! {
    struct Converted<B> {
        #[pin]
        body: B,
    }
}

impl<B: Body<Data = Bytes>> Body for Converted<B>
where
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = self.project().body.poll_frame(cx);
        frame.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

type Fields = Vec<(String, Vec<u8>)>;

#[derive(Serialize, Deserialize)]
struct RequestHead {
    method: String,
    uri: String,
    version: u8,
    headers: Fields,
}

#[derive(Serialize, Deserialize)]
struct ResponseHead {
    status: u16,
    version: u8,
    headers: Fields,
}

/// In the order of their numbers.
const VERSIONS: [Version; 5] = [
    Version::HTTP_09,
    Version::HTTP_10,
    Version::HTTP_11,
    Version::HTTP_2,
    Version::HTTP_3,
];

fn version(version: Version) -> u8 {
    let known = VERSIONS.iter().position(|other| *other == version);
    known.unwrap_or(VERSIONS.len()) as u8
}

/// The head of a request, as the tape keeps it.
pub(super) fn request_head<B>(request: &Request<B>) -> Vec<u8> {
    write(&RequestHead {
        method: request.method().to_string(),
        uri: request.uri().to_string(),
        version: version(request.version()),
        headers: fields(request.headers()),
    })
}

/// The head of a response, as the tape keeps it.
pub(super) fn response_head<B>(response: &Response<B>) -> Vec<u8> {
    write(&ResponseHead {
        status: response.status().as_u16(),
        version: version(response.version()),
        headers: fields(response.headers()),
    })
}

/// A recorded request; `None` if its head is not on the tape.
pub(super) fn request(mut parts: Parts) -> Option<Request<Payload>> {
    let head: RequestHead = head(&mut parts)?;
    let mut request = Request::builder()
        .method(head.method.as_str())
        .uri(head.uri)
        .version(*VERSIONS.get(usize::from(head.version))?)
        .body(Payload::recorded(parts))
        .ok()?;
    *request.headers_mut() = map(&head.headers)?;
    Some(request)
}

/// A recorded response; `None` if its head is not on the tape.
pub(super) fn response(mut parts: Parts) -> Option<Response<Payload>> {
    let head: ResponseHead = head(&mut parts)?;
    let mut response = Response::builder()
        .status(head.status)
        .version(*VERSIONS.get(usize::from(head.version))?)
        .body(Payload::recorded(parts))
        .ok()?;
    *response.headers_mut() = map(&head.headers)?;
    Some(response)
}

fn head<T: for<'a> Deserialize<'a>>(parts: &mut Parts) -> Option<T> {
    match parts.next()? {
        (PartKind::Head, bytes) => read(bytes),
        _ => None,
    }
}

fn fields(headers: &HeaderMap) -> Fields {
    let field = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.as_str().to_owned(), value.as_bytes().to_vec())
    };
    headers.iter().map(field).collect()
}

fn map(fields: &Fields) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers
            .try_append(name, HeaderValue::from_bytes(value).ok()?)
            .ok()?;
    }
    Some(headers)
}

fn write<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("memory takes all bytes")
}

fn read<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}
