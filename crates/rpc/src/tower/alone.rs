//! A replay of one process alone, for services: the tape in place of a listener.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::alone::Requests;
use crate::tower::payload::{Payload, request};

/// Brings the recorded requests to a service, until the replay ends. `body` makes the service's body,
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
    while let Some(incoming) = requests.next().await {
        // Others are not for a service, and are missed as such.
        let Some(request) = request(incoming.parts) else {
            continue;
        };
        let (request, mut service) = (request.map(&body), service.clone());
        spawn(Box::pin(async move {
            let ready = poll_fn(|cx| service.poll_ready(cx)).await;
            if ready.is_ok()
                && let Ok(response) = service.call(request).await
            {
                // Nobody gets the answer, but a stream that is not read does not go on.
                let mut body = pin!(response.into_body());
                while let Some(Ok(_)) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {}
            }
        }));
    }
}
