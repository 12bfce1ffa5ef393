//! A replay of one process alone, for services: the tape in place of a listener.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::alone::Requests;
use crate::lane::lock;
use crate::tower::payload::{Payload, request};
use crate::tower::wire::{IDENTITY, put};

/// How many requests are still to be answered that were answered in the recording.
#[derive(Default)]
struct Open(Mutex<(usize, Option<Waker>)>);

/// One of them.
struct Answering(Arc<Open>);

impl Answering {
    fn new(open: &Arc<Open>) -> Self {
        lock(&open.0).0 += 1;
        Self(open.clone())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut open = lock(&self.0.0);
        open.0 -= 1;
        let waker = open.1.take();
        drop(open);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Brings the recorded requests to a service, until the replay ends and all those are answered that were
/// answered in the recording. `body` makes the service's body,
/// as for [`crate::tower::Receive::payloads`]; `spawn` runs the handling of one request.
pub async fn serve_recorded<S, B, R>(
    mut requests: Requests,
    service: S,
    body: impl Fn(Payload) -> B,
    mut spawn: impl FnMut(Pin<Box<dyn Future<Output = ()> + Send>>),
) where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: Body + Send,
{
    let open = Arc::new(Open::default());
    while let Some(incoming) = requests.next().await {
        let answering = incoming.is_answered.then(|| Answering::new(&open));
        // Others are not for a service, and are missed as such.
        let Some(request) = request(incoming.parts) else {
            continue;
        };
        let (mut request, mut service) = (request.map(&body), service.clone());
        // As this version writes it, and not the one that recorded.
        match incoming.header {
            Some(header) => put(request.headers_mut(), IDENTITY, &header.to_text()),
            None => drop(request.headers_mut().remove(IDENTITY)),
        }
        spawn(Box::pin(async move {
            let ready = poll_fn(|cx| service.poll_ready(cx)).await;
            if ready.is_ok()
                && let Ok(response) = service.call(request).await
            {
                drop(answering);
                // Nobody gets the answer, but a stream that is not read does not go on.
                let mut body = pin!(response.into_body());
                while let Some(Ok(_)) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {}
            }
        }));
    }
    // Where it left its recording, some may wait for a request that never comes.
    if requests.has_failed() {
        return;
    }
    poll_fn(|cx| {
        let mut open = lock(&open.0);
        open.1 = Some(cx.waker().clone());
        match open.0 {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
}
