//! The client's layer: a request carries the identity that its task gives it.

use std::fmt::Display;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::client::{CallError, halted, try_call};
use crate::halt::Halt;
use crate::header::HEADER_NAME;
use crate::tower::wire::{HALT_NAME, content};

/// Gives requests of a client their identity. It belongs below whatever sends a request again, so that
/// each attempt has an identity of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Send;

impl<S> Layer<S> for Send {
    type Service = Sending<S>;

    fn layer(&self, inner: S) -> Sending<S> {
        Sending { inner }
    }
}

/// A client whose requests carry identities.
#[derive(Debug, Clone)]
pub struct Sending<S> {
    inner: S,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + std::marker::Send>>;

impl<S, B, R> Service<Request<B>> for Sending<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + std::marker::Send + 'static,
    S::Future: std::marker::Send,
    S::Error: Display,
    B: std::marker::Send + 'static,
    R: std::marker::Send,
{
    type Response = S::Response;
    type Error = CallError;
    type Future = Boxed<Result<S::Response, CallError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        let failed = |error: S::Error| CallError::Failed(error.to_string());
        self.inner.poll_ready(cx).map_err(failed)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The clone is not the one that is ready.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            let content = content(&request);
            let response = try_call(Some(content), move |header| {
                if let Some(header) = header {
                    let text = HeaderValue::from_str(&header.to_text());
                    let text = text.expect("it is printable ASCII");
                    request.headers_mut().insert(HEADER_NAME, text);
                }
                let response = inner.call(request);
                // Kept until there is an answer: some clients end their connection with it.
                async move {
                    let response = response.await;
                    drop(inner);
                    response
                }
            })
            .await?;
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
