//! Layers for services and clients built on `tower` and `http`: axum, tonic, hyper.
//!
//! [`Receive`] goes around a service, [`Send`] around a client. The identity of a request is one
//! header of it, [`crate::HEADER_NAME`]. **Both wait in the response future only**, never in
//! `poll_ready`: limits, buffers and balancers around them see an ordinary service.

mod receive;
mod send;

pub use receive::{Receive, Receiving};
pub use send::{Send, Sending};

use crate::header::Content;

/// Carries the reason where a request is refused or the replay has ended.
pub const HALT_NAME: &str = "relive-rpc-halt";

/// What layers compare of a request: method and target. Bodies are streams, and not looked at.
fn content<B>(request: &http::Request<B>) -> Content {
    let target = request.uri().path_and_query();
    let target = target.map_or("/", |target| target.as_str());
    let mut bytes = Vec::with_capacity(128);
    bytes.extend_from_slice(request.method().as_str().as_bytes());
    bytes.push(b' ');
    bytes.extend_from_slice(target.as_bytes());
    Content::of(&bytes)
}
