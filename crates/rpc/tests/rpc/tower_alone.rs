//! A service without its peers: bodies with several frames and trailers, from the tape.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use relive_rpc::tower::{BoxError, Payload, Receive, SendPayloads, serve_recorded};
use relive_rpc::{Keep, Outcome, Session, Tape};
use tower_layer::Layer;
use tower_service::Service;

use crate::executor::{Executor, block_on, yield_now};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A body of frames that are there, or of another one.
enum Frames {
    Given(VecDeque<Frame<Bytes>>),
    Kept(Pin<Box<Payload>>),
}

impl Default for Frames {
    fn default() -> Self {
        Self::Given(VecDeque::new())
    }
}

impl Frames {
    fn of(pieces: &[&str]) -> Self {
        let data = pieces
            .iter()
            .map(|piece| Frame::data(Bytes::copy_from_slice(piece.as_bytes())));
        let mut trailers = HeaderMap::new();
        trailers.insert("pieces", HeaderValue::from(pieces.len()));
        Self::Given(data.chain([Frame::trailers(trailers)]).collect())
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Given(frames) => Poll::Ready(frames.pop_front().map(Ok)),
            Self::Kept(payload) => payload.as_mut().poll_frame(cx),
        }
    }
}

/// All of a body as one line.
async fn read<B: Body<Data = Bytes> + Unpin>(mut body: B) -> Result<String, B::Error> {
    let mut line = String::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame?;
        match frame.data_ref() {
            Some(data) => line += str::from_utf8(data).unwrap(),
            None => line += &format!(" {:?}", frame.trailers_ref().unwrap()["pieces"]),
        }
        line.push('|');
        yield_now().await;
    }
    Ok(line)
}

/// Answers every request with these pieces; `None`: it must not be asked.
#[derive(Clone)]
struct Peer(Option<&'static [&'static str]>);

impl Service<Request<Frames>> for Peer {
    type Response = Response<Frames>;
    type Error = Infallible;
    type Future = Boxed<Result<Response<Frames>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        assert!(self.0.is_some(), "nothing is connected");
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Frames>) -> Self::Future {
        let pieces = self.0.expect("nothing is sent");
        Box::pin(async move { Ok(Response::new(Frames::of(pieces))) })
    }
}

/// Notes its requests, and the answers of its peer.
#[derive(Clone)]
struct Middle {
    peer: Peer,
    log: Arc<Mutex<Vec<String>>>,
}

impl Service<Request<Frames>> for Middle {
    type Response = Response<Frames>;
    type Error = Infallible;
    type Future = Boxed<Result<Response<Frames>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Frames>) -> Self::Future {
        let Self { peer, log } = self.clone();
        Box::pin(async move {
            let name = request.headers()["name"].to_str().unwrap().to_owned();
            let asked = read(request.into_body()).await.unwrap();
            let mut client = SendPayloads.layer(peer);
            poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
            let to = Request::builder()
                .uri("/peer")
                .body(Frames::default())
                .unwrap();
            let answer = client.call(to).await.unwrap();
            let answered = read(Box::pin(answer.into_body())).await.unwrap();
            log.lock()
                .unwrap()
                .push(format!("{name}: {asked} -> {answered}"));
            Ok(Response::new(Frames::of(&["done"])))
        })
    }
}

#[test]
fn a_service_is_replayed_without_its_peers() {
    let open = |session: &Session, peer| {
        let log = Arc::default();
        let middle = Middle {
            peer: Peer(peer),
            log,
        };
        let entry = session.exclusive("middle").unwrap();
        let layer = Receive::new(entry).payloads(|body| Frames::Kept(Box::pin(body)));
        (layer.layer(middle.clone()), middle.log)
    };
    let session = Session::record_in_memory("service", Keep::Payloads).unwrap();
    let (mut service, log) = open(&session, Some(&["an", "answer"]));
    for (at, pieces) in [&["a"][..], &[], &["b", "c", "d"]].iter().enumerate() {
        let request = Request::builder()
            .uri("/middle")
            .header("name", format!("request{at}"))
            .body(Frames::of(pieces));
        let response = block_on(service.call(request.unwrap())).unwrap();
        assert!(response.status().is_success());
    }
    let tape = Tape::parse(&session.finish_in_memory()).unwrap();
    let recorded = log.lock().unwrap().clone();
    assert_eq!(recorded.len(), 3);
    assert_eq!(recorded[2], "request2: b|c|d| \"3\"| -> an|answer| \"2\"|");

    let session = Session::replay_tape_alone(tape, Some(Duration::from_secs(5))).unwrap();
    let (service, log) = open(&session, None);
    let executor = Executor::new(Box::new(|_| 0));
    let requests = session.requests().unwrap();
    let body = |payload| Frames::Kept(Box::pin(payload));
    let spawner = executor.clone();
    let spawn = move |future| spawner.spawn(future);
    executor.spawn(serve_recorded(requests, service, body, spawn));
    assert!(executor.run_here());
    assert_eq!(*log.lock().unwrap(), recorded);
    assert_eq!(session.outcome(), Outcome::Over);
}
